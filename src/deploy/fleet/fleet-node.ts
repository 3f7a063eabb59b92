import { randomUUID } from 'node:crypto'
import {
  AdminConflictError,
  ChangeRefusedError,
  FleetChangedError,
  FleetEmptyError,
  FleetUnavailableError,
} from '../../errors/errors.ts'
import { errorFields } from '../../errors/failure.ts'
import { Mutex } from '../../platform/mutex.ts'
import type { ModuleBytes } from '../../plugin/source/module-bytes.ts'
import {
  type Attempt,
  type ChangeOptions,
  type Deployments,
  type MakeDesired,
  reload,
  type SharedChanges,
} from '../deployments.ts'
import type { DesiredState } from '../desired-state.ts'
import type { Edits } from '../edits.ts'
import type { EditStore } from '../state-folder.ts'
import { renderState } from '../state-json.ts'
import { appliedByAll, namesOf, revertTo, usesOf, writeHead } from './changes.ts'
import { digestsOfTexts, type StateTexts, storeContents } from './contents.ts'
import type { FleetHead, FleetRevision, FleetStore, SeenNodes } from './fleet-store.ts'
import type { FleetView } from './fleet-view.ts'
import { type Live, NodeRecord, type RecordParts } from './node-record.ts'
import type { NodeStates } from './node-states.ts'
import { advance, nextHead, revisionFor } from './rollout.ts'
import type { FleetSettings } from './settings.ts'

/** Intervals vary by this share in both directions, so that many nodes do not ask at the same time. */
const JITTER = 0.1

/** The shortest pause. */
const LEAST_MS = 50

/** How long a request waits for all nodes, besides the time of the canaries. */
const WAIT_MS = 30_000

/** How often a change is made again because another one came first. */
const MAX_TRIES = 20

export interface FleetNodeParts extends RecordParts {
  readonly settings: Pick<FleetSettings, 'node' | 'pollMs' | 'rules' | 'moduleMax'>
  readonly store: FleetStore
  readonly states: Pick<NodeStates, 'load' | 'renew' | 'keep' | 'keepModules' | 'module'>
}

export interface FailedBeginning {
  readonly revision: FleetRevision | undefined
  readonly error: unknown
}

/** Serves revisions of the fleet. */
export type FleetServer = Pick<Deployments, 'prepare'>

/** A revision is in the store already. */
const STORED: Pick<EditStore, 'write'> = { write: async () => undefined }

/**
 * A node of a fleet: follows the head, reports what it serves, takes the next steps of rollouts, and makes changes. It
 * never applies an older revision than the one that it serves, and never two at a time. Serving does not depend on it.
 *
 * A change is one of the fleet: it is derived from the newest revision, prepared here, stored, and then goes live here and
 * everywhere. A reload reads the options of this node again, and changes only it.
 */
export class FleetNode implements SharedChanges {
  readonly #parts: FleetNodeParts
  readonly #record: NodeRecord
  readonly #ended = new AbortController()
  #server: FleetServer | undefined
  #lastNodes: SeenNodes = { nodes: [], now: 0 }
  readonly #steps = new Mutex()
  #wake: () => void = () => undefined
  #isWoken = false

  /** @param failed - A revision that could not be served at the start. */
  constructor(
    parts: FleetNodeParts,
    live: Omit<Live, 'since'>,
    head: FleetHead | undefined,
    failed?: FailedBeginning,
  ) {
    this.#parts = parts
    this.#record = new NodeRecord(parts, live, head)
    if (failed?.revision) this.#record.refuse(failed.revision, failed.error)
  }

  /** The state that is served here, as text. */
  get texts(): StateTexts {
    return this.#record.live.texts
  }

  get tag(): string {
    return this.#record.tag
  }

  get status(): NodeRecord['status'] {
    return this.#record.status
  }

  revisionOf(deployment: number): number {
    return this.#record.revisionOf(deployment)
  }

  /** @param server - Serves what the head asks for. */
  attach(server: FleetServer, url?: string): void {
    this.#server = server
    this.#record.url = url
  }

  /** Begins to follow the head. */
  start(): void {
    if (this.#record.live.from === 'fleet') this.#record.keepCopy()
    this.#parts.store.onWrite(() => {
      this.#isWoken = true
      this.#wake()
    })
    void this.#follow()
  }

  /** Ends following, and aborts the present step. */
  stop(): void {
    this.#ended.abort(new ChangeRefusedError('the server is shutting down'))
    this.#wake()
  }

  /** Removes the record of the node. */
  async close(): Promise<void> {
    this.stop()
    await this.#steps.idle
    await this.#record.kept
    await this.#parts.store.leave(this.#parts.settings.node).catch(() => undefined) // it is forgotten later
    await this.#parts.store.close()
  }

  /** Reports, reads the head, serves what it asks for, and takes the next step of its rollout. */
  step(): Promise<void> {
    return this.exclusive(() => this.#step())
  }

  /** Runs when earlier steps have ended. */
  exclusive<Value>(step: () => Promise<Value>): Promise<Value> {
    return this.#steps.run(() => {
      this.#ended.signal.throwIfAborted()
      return step()
    })
  }

  change(
    desired: DesiredState | MakeDesired,
    reason: string,
    options: ChangeOptions,
    make: Deployments['attempt'],
  ): Promise<Attempt> {
    return this.exclusive(async () => {
      const by = options.by ?? this.#parts.settings.node
      for (let tries = 1; ; tries++) {
        const attempt =
          desired === reload
            ? await this.#reload(reason, options, make)
            : await this.#change(desired, reason, { ...options, by }, make)
        if (!(attempt.error instanceof FleetChangedError) || tries === MAX_TRIES) return attempt
      }
    })
  }

  async #reload(reason: string, options: ChangeOptions, make: Deployments['attempt']): Promise<Attempt> {
    try {
      await this.#parts.states.renew()
    } catch (error) {
      return make(() => Promise.reject(error), reason)
    }
    this.#record.retryNow()
    this.#isWoken = true
    this.#wake()
    return make(reload, reason, { ...options, store: STORED })
  }

  /** Brings the node to the head first. A change is refused during a rollout, and if the node does not serve the head. */
  async #change(
    desired: DesiredState | MakeDesired,
    reason: string,
    options: ChangeOptions & { readonly by: string },
    make: Deployments['attempt'],
  ): Promise<Attempt> {
    try {
      await this.#step()
      const head = this.#editable()
      const write: EditStore['write'] = (edits, modules) =>
        this.#persist(head, { by: options.by, reason }, edits, modules)
      return await make(desired, reason, { ...options, store: { write } })
    } catch (error) {
      return make(() => Promise.reject(error), reason)
    }
  }

  /**
   * Stores a change before it goes live here.
   *
   * @param head - The one that it replaces.
   * @throws {@link FleetChangedError} if another change came first.
   */
  async #persist(
    head: FleetHead,
    { by, reason }: { readonly by: string; readonly reason: string },
    edits: Edits,
    modules: ReadonlyMap<string, ModuleBytes>,
  ): Promise<void> {
    const { store, states, settings } = this.#parts
    const texts = { configuration: this.#record.live.texts.configuration, edits: renderState(edits) }
    await this.#record.kept
    await states.keepModules(modules)
    const [uses, seen] = await Promise.all([
      storeContents(store, texts, edits, this.#moduleOf(modules), settings.moduleMax),
      store.nodes(),
    ])
    const next = nextHead(
      head,
      { ...digestsOfTexts(texts), by, reason, rules: settings.rules, node: settings.node },
      seen,
    )
    await writeHead(store, head, next, uses)
    this.#record.adopt(next, next.newest, { edits, texts })
  }

  /**
   * Makes the first head of a fleet from what this node serves.
   *
   * @returns whether it is the first: another node may have been faster.
   */
  async seed(modules: ReadonlyMap<string, ModuleBytes>): Promise<boolean> {
    const { store, states, settings } = this.#parts
    const { edits, texts } = this.#record.live
    await states.keepModules(modules)
    const [uses, seen] = await Promise.all([
      storeContents(store, texts, edits, this.#moduleOf(modules), settings.moduleMax),
      store.nodes(),
    ])
    const { node: by, rules } = settings
    const change = { ...digestsOfTexts(texts), by, reason: 'the first start', rules }
    const first = nextHead(undefined, change, seen)
    if ((await store.write(undefined, first, uses)) !== 'written') return false
    this.#record.adopt(first, first.newest, { edits, texts })
    this.#record.noteRevision(1, first.newest.revision)
    return true
  }

  /**
   * Makes an earlier revision the newest again. Possible in each phase of a rollout.
   *
   * @param revision - Default: the one that was served before the newest.
   * @throws `AdminConflictError` if it is not kept.
   */
  async rollBack(revision: number | undefined, by: string | undefined): Promise<FleetRevision> {
    return this.exclusive(async () => {
      await this.#step()
      const { store, settings } = this.#parts
      const head = this.#record.head
      if (!head) throw new FleetEmptyError(store.name)
      const next = await revertTo(store, head, { revision, by: by ?? settings.node, ...settings })
      await writeHead(store, head, next.head, next.uses)
      await this.#step().catch(() => undefined) // it is stored: this node follows like any other
      return next.head.newest
    })
  }

  async view(): Promise<FleetView> {
    const { store, settings } = this.#parts
    const all = { name: store.name, node: settings.node }
    try {
      const [seen, { head }, revisions] = await Promise.all([store.nodes(), store.head(), store.revisions()])
      this.#lastNodes = seen
      this.#record.noteContact(true)
      return { ...all, ...seen, isConnected: true, head: head === 'unchanged' ? undefined : head, revisions }
    } catch (error) {
      if (!(error instanceof FleetUnavailableError)) throw error
      this.#record.noteContact(false)
      return { ...all, ...this.#lastNodes, isConnected: false, head: this.#record.head, revisions: [] }
    }
  }

  /**
   * Resolves when all nodes that report serve the newest revision.
   *
   * @returns warnings.
   * @throws `FleetNotAppliedError` if one refuses it, or has not served it in time.
   */
  async applied(signal: AbortSignal): Promise<readonly string[]> {
    const { store, settings } = this.#parts
    const head = this.#record.head
    if (!head) throw new FleetEmptyError(store.name)
    const { gone } = await appliedByAll(store, head.newest, WAIT_MS + settings.rules.canaryMs, signal)
    return gone.length === 0 ? [] : [`nodes that do not report were skipped: ${namesOf(gone)}`]
  }

  /** @throws {@link AdminConflictError} if no edit is possible now. */
  #editable(): FleetHead {
    const head = this.#record.head
    if (!head) throw new FleetEmptyError(this.#parts.store.name)
    const { newest, rollout } = head
    if (rollout.phase === 'canary')
      throw new AdminConflictError(
        `revision ${newest.revision} is being tried by ${rollout.nodes.length} nodes: wait, or roll it back`,
      )
    if (rollout.phase === 'stopped')
      throw new AdminConflictError(
        `the rollout of revision ${newest.revision} has stopped (${rollout.problem}): roll it back, or apply another configuration`,
      )
    if (this.#record.live.revision?.id !== newest.id)
      throw new AdminConflictError(
        `this node does not serve revision ${newest.revision} (${this.#record.status.refused?.message ?? 'it serves a newer one'}): use another node`,
      )
    return head
  }

  async #follow(): Promise<void> {
    const { settings, log } = this.#parts
    while (!this.#ended.signal.aborted) {
      this.#isWoken = false
      try {
        await this.step()
      } catch (error) {
        const isExpected = this.#ended.signal.aborted || error instanceof FleetUnavailableError
        if (!isExpected) log.error(errorFields(error), 'the fleet could not be read')
      }
      if (this.#isWoken) continue
      const ms = settings.pollMs * (1 + JITTER * (2 * Math.random() - 1))
      const { canaryMs = ms, retryInMs } = this.#record
      await this.#pause(Math.min(ms, Math.max(LEAST_MS, Math.min(canaryMs, retryInMs))))
    }
  }

  #pause(ms: number): Promise<void> {
    if (this.#isWoken || this.#ended.signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      timer.unref()
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async #step(): Promise<void> {
    const { store } = this.#parts
    await this.#observe()
    if (await this.#restore()) await this.#observe()
    if (await this.#serve()) await this.#observe()
    const head = this.#record.head
    if (!head || head.rollout.phase === 'done' || head.rollout.phase === 'stopped') return
    const next = advance(head, await store.nodes())
    if (!next) return
    const isBack = next.newest.id !== head.newest.id
    const uses = isBack ? await usesOf(store, next.newest, this.#parts.settings.moduleMax) : undefined
    if ((await store.write(head.tag, next, uses)) !== 'written') return // another node was faster
    const { phase, problem } = next.rollout
    this.#parts.log.info({ revision: next.newest.revision, phase, problem }, 'the rollout has advanced')
    this.#record.head = next
    if (await this.#serve()) await this.#observe()
  }

  /** What is reported as served has been kept, so that a node that is killed then has it. */
  async #observe(): Promise<void> {
    await this.#record.kept
    try {
      this.#record.noteAnswer(await this.#parts.store.report(this.#record.report(), this.#record.head?.tag))
    } catch (error) {
      this.#record.noteContact(false)
      throw error
    }
  }

  #moduleOf(modules: ReadonlyMap<string, ModuleBytes>): (digest: string) => Promise<ModuleBytes> {
    return async (digest) => modules.get(digest) ?? this.#parts.states.module(digest)
  }

  /** A store that lost its last writes gets back what this node serves. @returns whether it did. */
  async #restore(): Promise<boolean> {
    const { store, log } = this.#parts
    const { fleet, revision, edits, texts } = this.#record.live
    const head = this.#record.head
    if (!revision || fleet === undefined) return false
    if (head && (head.fleet !== fleet || head.newest.revision >= revision.revision)) return false
    const uses = await storeContents(
      store,
      texts,
      edits,
      this.#moduleOf(new Map()),
      this.#parts.settings.moduleMax,
    )
    const { now } = await store.head()
    const rollout = { ...this.#parts.settings.rules, phase: 'all', since: now, nodes: [] } as const
    const restored = { tag: randomUUID(), fleet, newest: revision, before: undefined, rollout }
    if ((await store.write(head?.tag, restored, uses)) !== 'written') return true
    log.warn({ revision: revision.revision }, 'the store had lost revisions of the fleet: restored')
    return true
  }

  /** Serves the revision that the head asks for. @returns whether the report has changed. */
  async #serve(): Promise<boolean> {
    const { settings, states, log } = this.#parts
    const head = this.#record.head
    const server = this.#server
    const { fleet, revision } = this.#record.live
    if (!head || !server) return false
    const isOther = fleet !== undefined && head.fleet !== fleet
    const served = revision && !isOther ? revision : { revision: 0, id: '' }
    const wanted = revisionFor(head, settings.node, served)
    if (!wanted) return false
    if (this.#record.waitsFor(wanted)) return false
    if (isOther) log.warn({ fleet: head.fleet }, 'the store has another fleet: this node joins it')
    const begun = performance.now()
    await this.#record.kept
    try {
      const state = await states.load(wanted)
      const { configuration, edits } = state
      const reason = `fleet revision ${wanted.revision}: ${wanted.reason}`
      this.#record.next = wanted
      const prepared = await server.prepare(
        ({ revision }) => ({ revision, configuration, edits, warnings: [] }),
        reason,
        { signal: this.#ended.signal, store: STORED },
      )
      await prepared.commit()
      this.#record.adopt(head, wanted, state)
    } catch (error) {
      if (this.#ended.signal.aborted || error instanceof FleetUnavailableError) throw error
      this.#record.refuse(wanted, error)
      return true
    } finally {
      this.#record.next = undefined
    }
    const ms = Math.round(performance.now() - begun)
    log.info({ revision: wanted.revision, by: wanted.by, ms }, 'serving a revision of the fleet')
    return true
  }
}
