import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import { errorFields, hasOwnCode } from '../../errors/failure.ts'
import type { Secrets } from '../../observe/log/secrets.ts'
import { Mutex } from '../../platform/mutex.ts'
import { packageVersion } from '../../platform/packages.ts'
import { type Edits, trafficOf } from '../edits.ts'
import type { StateTexts } from './contents.ts'
import type { FleetHead, FleetRevision, NodeReport, Refusal, SeenHead } from './fleet-store.ts'
import type { NodeStates } from './node-states.ts'
import type { FleetSettings } from './settings.ts'

/** The first pause after a refusal; it doubles up to the maximum. */
const RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000

/** The number of deployments whose revisions are known. */
const KEPT_DEPLOYMENTS = 100

/** The number of digests of plug-ins in a report. */
const SHOWN_PLUGINS = 100

export interface RecordParts {
  readonly settings: Pick<FleetSettings, 'node' | 'pollMs'>
  readonly states: Pick<NodeStates, 'keep'>
  /** Values that are in no report. */
  readonly secrets: Pick<Secrets, 'hide'>
  readonly log: FastifyBaseLogger
  /** The clock of the node, in ms. Default: a monotonic one. */
  readonly clock?: () => number
}

/** What a node serves. */
export interface Live {
  /** The id of the fleet; undefined before the node knows it. */
  readonly fleet: string | undefined
  /** undefined if it is from files, and not from the fleet. */
  readonly revision: FleetRevision | undefined
  readonly edits: Edits
  readonly texts: StateTexts
  readonly from: NodeReport['from']
  readonly since: string
}

/** What a node serves, what it refuses, and what it knows of its fleet. Reports are made of it. */
export class NodeRecord {
  readonly #parts: RecordParts
  readonly #instance = randomUUID()
  readonly #clock: () => number
  /** The newest head that was read. */
  head: FleetHead | undefined
  live: Live
  url: string | undefined
  /** The revision that goes live here. */
  next: FleetRevision | undefined
  /** Revisions of the last deployments, by their numbers. */
  readonly #revisions = new Map<number, number>()
  /** Writes copies of the served state. */
  readonly #keeping = new Mutex()
  #refused: Refusal | undefined
  #retryAt = 0
  #retryMs = RETRY_MS
  #isConnected = true
  #connectedAt: number
  #hasReported = false
  /** Another process with the name of this node. */
  #namesake: string | undefined
  /** The offset of the store's clock from the local clock, in ms. */
  #aheadMs = 0

  constructor(parts: RecordParts, live: Omit<Live, 'since'>, head: FleetHead | undefined) {
    this.#parts = parts
    this.#clock = parts.clock ?? (() => performance.now())
    this.#connectedAt = this.#clock()
    this.live = { ...live, since: new Date().toISOString() }
    this.head = head
    this.revisionOf(1)
  }

  /** A tag of the served state that is the same on all nodes. */
  get tag(): string {
    const { fleet = 'none', revision } = this.live
    return `${fleet.slice(0, 8)}-${revision?.revision ?? 0}-${revision?.id.slice(0, 8) ?? 'none'}`
  }

  /** The revision of a deployment of this node: its own options may change without the fleet. */
  revisionOf(deployment: number): number {
    const known = this.#revisions.get(deployment)
    if (known !== undefined) return known
    const { revision } = this.next ?? this.live.revision ?? { revision: 0 }
    this.noteRevision(deployment, revision)
    return revision
  }

  noteRevision(deployment: number, revision: number): void {
    this.#revisions.set(deployment, revision)
    this.#revisions.delete(deployment - KEPT_DEPLOYMENTS)
  }

  /** What metrics and readiness show. */
  get status() {
    return {
      node: this.#parts.settings.node,
      revision: this.live.revision?.revision ?? 0,
      newest: this.head?.newest.revision ?? 0,
      from: this.live.from,
      isConnected: this.#isConnected,
      /** Seconds since the store has answered last. */
      silentSeconds: this.#isConnected ? 0 : (this.#clock() - this.#connectedAt) / 1_000,
      refused: this.#refused,
    }
  }

  report(): NodeReport {
    const { settings } = this.#parts
    const { revision, edits, from, since } = this.live
    const plugins = [...edits.plugins].flatMap(([name, plugin]) => {
      const [live] = trafficOf(plugin)
      return live ? [[name, live.digest] as const] : []
    })
    return {
      ...{ node: settings.node, instance: this.#instance, from, since, url: this.url },
      refused: this.#refused,
      revision: revision?.revision ?? 0,
      id: revision?.id ?? '',
      version: packageVersion(),
      plugins: Object.fromEntries(plugins.slice(0, SHOWN_PLUGINS)),
      pluginCount: plugins.length,
      pollMs: settings.pollMs,
    }
  }

  /** Notes the answer of the store to a report. */
  noteAnswer({ head, now, replaced }: SeenHead): void {
    this.#noticeNamesake(replaced)
    this.noteContact(true)
    this.#aheadMs = now - Date.now()
    if (head !== 'unchanged') this.head = head
    const isCopy = this.live.from === 'copy' && this.head?.newest.id === this.live.revision?.id
    if (isCopy) this.live = { ...this.live, from: 'fleet' }
  }

  /** At the first report, the record may be that of the process that had the name before. */
  #noticeNamesake(replaced: string | undefined): void {
    const isOther = this.#hasReported && replaced !== undefined && replaced !== this.#instance
    this.#hasReported = true
    if (!isOther || replaced === this.#namesake) return
    this.#namesake = replaced
    const { settings, log } = this.#parts
    log.warn(
      { node: settings.node },
      'another node has the same name, and rollouts count them as one: set fleet.node',
    )
  }

  /** Notes whether the store has answered. */
  noteContact(isConnected: boolean): void {
    if (isConnected) this.#connectedAt = this.#clock()
    this.#isConnected = isConnected
  }

  /** A revision of the fleet is live here. */
  adopt(head: FleetHead, revision: FleetRevision, { edits, texts }: Pick<Live, 'edits' | 'texts'>): void {
    this.head = head
    this.live = {
      ...{ fleet: head.fleet, revision, edits, texts, from: 'fleet' },
      since: new Date().toISOString(),
    }
    this.#refused = undefined
    this.#retryMs = RETRY_MS
    this.keepCopy()
  }

  /** Keeps what is served, for a start without the store. */
  keepCopy(): void {
    const { fleet, revision, edits, texts } = this.live
    if (fleet === undefined || !revision) return
    this.#keeping
      .run(() => this.#parts.states.keep({ fleet, revision, ...texts }, edits))
      .catch((error) =>
        this.#parts.log.error(errorFields(error), 'the last state of the fleet could not be saved'),
      )
  }

  /** Settles when no copy is written. A copy removes modules that it does not know. */
  get kept(): Promise<void> {
    return this.#keeping.idle
  }

  /** A revision cannot be served here. */
  refuse({ revision, id }: FleetRevision, error: unknown): void {
    const { log } = this.#parts
    const code = hasOwnCode(error) ? error.code : 'WASM_SERVE_INTERNAL_ERROR'
    const message = this.#parts.secrets.hide((error as Error).message)
    const before = this.#refused?.id === id ? this.#refused : undefined
    const isNew = before?.message !== message
    this.#retryMs = before ? Math.min(2 * this.#retryMs, MAX_RETRY_MS) : RETRY_MS
    this.#retryAt = this.#clock() + this.#retryMs
    this.#refused = { revision, id, code, message, attempts: (before?.attempts ?? 0) + 1 }
    if (isNew && hasOwnCode(error))
      log.error({ revision, code }, `a revision of the fleet is refused: ${message}`)
    else if (isNew) log.error({ revision, err: error }, 'a revision of the fleet is refused')
  }

  /** The time until a refused revision is tried again, in ms. */
  get retryInMs(): number {
    return this.#refused ? this.#retryAt - this.#clock() : Number.POSITIVE_INFINITY
  }

  /** Tries a refused revision again without a pause. */
  retryNow(): void {
    this.#retryAt = 0
  }

  /** Whether a revision was refused, and it is too early to try it again. */
  waitsFor({ id }: FleetRevision): boolean {
    return this.#refused?.id === id && this.retryInMs > 0
  }

  /** The time until the canaries of a rollout are judged, in ms; undefined if there are none. */
  get canaryMs(): number | undefined {
    const until = this.head?.rollout.until
    return until === undefined ? undefined : until - Date.now() - this.#aheadMs
  }
}
