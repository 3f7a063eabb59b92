import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { file } from '../guest.ts'
import { type Load, type LoadCounts, startLoad } from '../load.ts'
import type { Random } from '../random.ts'
import { freePort, type RedisServer, type StoreServer, startRedis } from '../redis.ts'
import { type AdminOperation, historyProblems, readProblems } from './history.ts'
import { type NodeProcess, startNode } from './node-process.ts'
import { openProxy, type TcpProxy } from './tcp-proxy.ts'
import { versionIn, versionModule } from './versions.ts'

/*
 * A fleet of processes on this machine, under load, while operators change it and faults happen. Nothing is retried.
 */

/** A fault that begins before a change, and ends before a later one. */
export interface PlannedFault {
  readonly kind: FaultKind
  /** The number of the change before which it begins, from 1. */
  readonly from: number
  /** The number of changes that are tried meanwhile. */
  readonly changes: number
}

export const FAULT_KINDS = [
  'node killed',
  'node stopped',
  'node cut off',
  'node silent',
  'store killed',
  'store stopped',
  'store paused',
  'store emptied',
] as const

type FaultKind = (typeof FAULT_KINDS)[number]

export interface FaultyOptions {
  readonly nodes: number
  /** Changes that operators try, two at a time now and then. */
  readonly changes: number
  /** Requests in total, at least. */
  readonly requests: number
  /** Connections to each node. */
  readonly connections: number
  /** Pause of each between its requests: the load must leave the machine time for the changes. */
  readonly pauseMs: number
  readonly faults: readonly PlannedFault[]
  readonly random: Random
  /** Default: Redis. */
  readonly server?: StoreServer
  /** For the data of the store and the nodes' copies. */
  readonly folder: string
  readonly pollMs?: number
  readonly progress?: (line: string) => void
}

export interface FaultyResult {
  readonly requests: number
  /** Answers without the request's body, or with a version that was never sent to the fleet. */
  readonly wrongBodies: number
  /** Answers after the fleet has converged that are not those of the last version. */
  readonly staleBodies: number
  /** Answers with an error. */
  readonly errors: number
  /** Requests without an answer, and refused connections, of nodes that were not killed at that time. */
  readonly failed: number
  /** The same of killed nodes. */
  readonly failedOfKilled: number
  readonly changes: Readonly<Record<AdminOperation['outcome'], number>>
  /** The reasons of refusals. */
  readonly refusals: readonly string[]
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>
  /** From the end of the last fault until all nodes served the newest revision. */
  readonly convergedMs: number
  /** The reasons that the history has no order. */
  readonly problems: readonly string[]
}

/** @throws if a node does not start, or the fleet does not converge. */
export async function runWithFaults(options: FaultyOptions): Promise<FaultyResult> {
  const fleet = await FaultyFleet.open(options)
  try {
    return await fleet.run()
  } finally {
    await fleet.close()
  }
}

/** The time limit of a change. */
const CHANGE_MS = 10_000

/** The time limit of reading the entity tag. */
const TAG_MS = 1_000

/** The time limit of the convergence, which is measured. */
const CONVERGE_MS = 60_000

/** A plug-in may take so long to start, which is much on a busy machine only: who is too slow refuses the change. */
export const START_MS = 60_000

/** `CLIENT PAUSE` ends by itself. */
const PAUSED_MS = 1_500

interface Member {
  readonly name: string
  readonly proxy: TcpProxy
  process: NodeProcess
  load: Load | undefined
  /** Resolves when a killed node listens again; undefined if it was not killed. */
  restarted: Promise<void> | undefined
  /** Failures while it was killed. */
  allowed: number
  /** Failures when it was killed. */
  before: number
  readonly start: () => NodeProcess
}

class FaultyFleet {
  readonly #options: FaultyOptions
  readonly #members: readonly Member[]
  #redis: RedisServer
  readonly #operations: AdminOperation[] = []
  readonly #versions = new Set([0])
  readonly #follows = new Map<string, readonly [number, number]>()
  readonly #refusals = new Set<string>()
  readonly #faults: Partial<Record<FaultKind, number>> = {}
  readonly #open: { readonly until: number; readonly heal: () => Promise<void> }[] = []
  #wrong = 0
  #stale = 0
  #last: number | undefined
  #isEnding = false

  static async open(options: FaultyOptions): Promise<FaultyFleet> {
    const port = await freePort()
    const redis = await startRedis(durable(options.folder), port, options.server)
    const plugin = file('handle.wasm', versionModule(0))
    const members: Member[] = []
    try {
      for (let index = 0; index < options.nodes; index++) {
        const name = `n${index}`
        const proxy = await openProxy(port)
        const places = {
          port: await freePort(),
          adminPort: await freePort(),
          state: join(options.folder, name),
        }
        const poll = options.pollMs === undefined ? [] : ['--fleet-poll-ms', String(options.pollMs)]
        const flags = [...poll, '--start-timeout-ms', String(START_MS)]
        const start = () =>
          startNode({
            ...places,
            node: name,
            store: `redis://127.0.0.1:${proxy.port}`,
            args: [plugin, ...flags],
          })
        const process = start()
        members.push({
          name,
          proxy,
          process,
          start,
          load: undefined,
          restarted: undefined,
          allowed: 0,
          before: 0,
        })
        if (index === 0) await process.listening // it makes the first revision
      }
      await Promise.all(members.map(({ process }) => process.listening))
    } catch (error) {
      for (const { process } of members) process.child.kill('SIGKILL')
      await redis.stop()
      throw error
    }
    return new FaultyFleet(options, members, redis)
  }

  constructor(options: FaultyOptions, members: readonly Member[], redis: RedisServer) {
    this.#options = options
    this.#members = members
    this.#redis = redis
  }

  async run(): Promise<FaultyResult> {
    const { changes, requests, faults, random, progress = () => undefined } = this.#options
    for (const member of this.#members) member.load = this.#startLoad(member)
    for (let change = 1; change <= changes; change++) {
      await this.#heal(change)
      for (const fault of faults) if (fault.from === change) await this.#begin(fault)
      await this.#change(random() < 0.3)
      // Changes and requests take turns.
      await this.#untilAnswers((requests * change) / changes)
      if (change % 20 === 0) progress(`${change} changes, ${this.#answers} requests`)
    }
    await this.#heal(Number.POSITIVE_INFINITY)
    const healed = performance.now()
    const final = await this.#converge()
    const convergedMs = performance.now() - healed
    this.#last = final.version
    await this.#untilAnswers(Math.max(requests, this.#answers + this.#members.length))
    this.#isEnding = true
    const counts = await Promise.all(this.#members.map(({ load }) => load?.stop()))
    const sum = (of: (counts: LoadCounts) => number) =>
      counts.reduce((all, each) => all + (each ? of(each) : 0), 0)
    const failedOfKilled = this.#members.reduce((all, { allowed }) => all + allowed, 0)
    const outcomes = (outcome: AdminOperation['outcome']) =>
      this.#operations.filter((operation) => operation.outcome === outcome).length
    return {
      requests: sum(({ answers }) => answers),
      wrongBodies: this.#wrong,
      staleBodies: this.#stale,
      errors: sum(({ non2xx }) => non2xx),
      failed: sum(failuresOf) - failedOfKilled,
      failedOfKilled,
      changes: {
        ok: outcomes('ok'),
        mismatch: outcomes('mismatch'),
        refused: outcomes('refused'),
        unknown: outcomes('unknown'),
      },
      refusals: [...this.#refusals],
      faults: this.#faults,
      convergedMs,
      problems: [
        ...[...this.#refusals].filter((reason) => reason === 'Internal server error'),
        ...historyProblems(this.#operations, final),
        ...readProblems(this.#operations, this.#follows.values()),
      ],
    }
  }

  async close(): Promise<void> {
    this.#isEnding = true
    for (const { process, proxy } of this.#members) {
      process.child.kill('SIGCONT')
      await process.end('SIGKILL')
      await proxy.close()
    }
    await this.#redis.stop()
  }

  get #answers(): number {
    return this.#members.reduce((all, { load }) => all + (load?.counts.answers ?? 0), 0)
  }

  #startLoad(member: Member): Load {
    // By client: an id is the client and the serial number of the request.
    const last = new Map<string, number>()
    return startLoad({
      url: `${member.process.url}/`,
      connections: this.#options.connections,
      pauseMs: this.#options.pauseMs,
      body: (id) => `${member.name}-${id} `,
      isAnswer: () => true, // all that follows is more exact
      onAnswer: ({ status, body }, sent) => {
        if (status !== 200) return
        const version = versionIn(body, sent)
        if (version === undefined || !this.#versions.has(version)) this.#wrong++
        else {
          if (this.#last !== undefined && version !== this.#last) this.#stale++
          const client = sent.slice(0, sent.lastIndexOf('-'))
          const before = last.get(client)
          if (before !== undefined && before !== version)
            this.#follows.set(`${before}>${version}`, [before, version])
          last.set(client, version)
        }
      },
      onRefused: async () => {
        last.clear() // a node that was killed may begin with an older copy
        await member.restarted
        return !this.#isEnding
      },
    })
  }

  /** Waits until so many requests were answered in total. */
  async #untilAnswers(count: number): Promise<void> {
    while (this.#answers < count) await sleep(5)
  }

  /** One operator, or two with the same entity tag and different nodes. */
  async #change(isPair: boolean): Promise<void> {
    const [one, other] = shuffled(
      this.#members.filter(({ restarted }) => !restarted),
      this.#options.random,
    )
    if (!one) return
    const tag = await one.process.ask('GET', '/api', { timeoutMs: TAG_MS }).then(
      (answer) => answer.tag,
      () => '', // it is stopped
    )
    const hasTag = tag !== '' && (isPair || this.#options.random() < 0.7)
    const operators = isPair && other ? [one, other] : [one]
    await Promise.all(operators.map((member) => this.#put(member, hasTag ? tag : undefined)))
  }

  async #put({ process }: Member, tag: string | undefined): Promise<void> {
    const version = this.#versions.size
    this.#versions.add(version)
    const begun = performance.now()
    const answer = await process
      .ask('PUT', '/api/plugins/handle', {
        body: versionModule(version),
        headers: tag === undefined ? {} : { 'if-match': tag },
        timeoutMs: CHANGE_MS,
      })
      .catch(() => undefined)
    const operation = {
      version,
      begun,
      ended: performance.now(),
      expected: tag === undefined ? tag : revisionOf(tag),
    }
    const outcome = outcomeOf(answer)
    if (outcome === 'refused') this.#refusals.add(answer?.body.detail)
    this.#operations.push({
      ...operation,
      outcome,
      ...(outcome === 'ok' && { revision: revisionOf(answer?.tag ?? '') }),
    })
  }

  async #begin({ kind, from, changes }: PlannedFault): Promise<void> {
    this.#faults[kind] = (this.#faults[kind] ?? 0) + 1
    const isOfStore = kind.startsWith('store')
    const member = isOfStore
      ? undefined
      : shuffled(
          this.#members.filter(({ restarted }) => !restarted),
          this.#options.random,
        )[0]
    const heal = member ? await this.#beginOfNode(kind, member) : await this.#beginOfStore(kind)
    this.#open.push({ until: from + changes, heal })
  }

  async #beginOfNode(kind: FaultKind, member: Member): Promise<() => Promise<void>> {
    const { proxy, process } = member
    switch (kind) {
      case 'node killed':
        return this.#kill(member)
      case 'node stopped':
        process.child.kill('SIGSTOP')
        return async () => void process.child.kill('SIGCONT')
      case 'node cut off':
        proxy.cut()
        break
      default:
        proxy.silence()
    }
    return async () => proxy.heal()
  }

  async #kill(member: Member): Promise<() => Promise<void>> {
    let restarted: () => void = () => undefined
    member.before = failuresOf(member.load?.counts)
    member.restarted = new Promise((resolve) => {
      restarted = resolve
    })
    await member.process.end('SIGKILL')
    return async () => {
      member.process = member.start()
      await member.process.listening
      member.allowed += failuresOf(member.load?.counts) - member.before
      member.restarted = undefined
      restarted()
    }
  }

  async #beginOfStore(kind: FaultKind): Promise<() => Promise<void>> {
    const { process, port } = this.#redis
    switch (kind) {
      case 'store killed':
        await this.#redis.stop()
        return () => this.#restartStore(port)
      case 'store stopped':
        process.kill('SIGSTOP')
        return async () => void process.kill('SIGCONT')
      case 'store paused':
        await this.#pauseStore()
        return async () => undefined
      default:
        // What no node serves is lost with the store: so all serve the newest revision first.
        await this.#heal(Number.POSITIVE_INFINITY)
        await this.#converge()
        await this.#redis.stop()
        rmSync(join(this.#options.folder, 'store'), { recursive: true })
        await this.#restartStore(port)
        return async () => undefined
    }
  }

  async #restartStore(port: number): Promise<void> {
    this.#redis = await startRedis(durable(this.#options.folder), port, this.#options.server)
  }

  async #pauseStore(): Promise<void> {
    const { createClient } = await import('@redis/client')
    const client = createClient({ url: `redis://127.0.0.1:${this.#redis.port}` })
    client.on('error', () => undefined)
    await client.connect()
    await client.sendCommand(['CLIENT', 'PAUSE', String(PAUSED_MS), 'ALL'])
    client.destroy()
  }

  /** Ends the faults that last until a change. */
  async #heal(change: number): Promise<void> {
    const over = this.#open.filter(({ until }) => until <= change)
    for (const fault of over) {
      this.#open.splice(this.#open.indexOf(fault), 1)
      await fault.heal()
    }
  }

  /** Waits until all nodes serve the newest revision, which all know. */
  async #converge(): Promise<{ readonly revision: number; readonly version: number }> {
    const end = performance.now() + CONVERGE_MS
    for (;;) {
      const states = await Promise.all(this.#members.map(stateOf))
      const [first] = states
      const isDone = states.every(
        ({ connected, revision, newest, version }) =>
          connected && revision === newest && revision === first?.revision && version === first.version,
      )
      if (isDone && first) return first
      if (performance.now() > end) {
        const { body } = (await this.#members[0]?.process.ask('GET', '/api/fleet')) ?? {}
        throw new Error(`the fleet does not converge: ${JSON.stringify(states)} ${JSON.stringify(body)}`)
      }
      await sleep(10)
    }
  }
}

const durable = (folder: string) => {
  const data = join(folder, 'store')
  mkdirSync(data, { recursive: true })
  return ['--dir', data, '--appendonly', 'yes', '--appendfsync', 'always']
}

function failuresOf(counts: Readonly<LoadCounts> | undefined): number {
  return (counts?.resets ?? 0) + (counts?.refused ?? 0)
}

interface MemberState {
  readonly connected: boolean
  readonly revision: number
  readonly newest: number
  readonly version: number
}

async function stateOf({ process: { adminUrl, url } }: Member): Promise<MemberState> {
  const [ready, answer] = await Promise.all([
    fetch(`${adminUrl}/readyz`).then((answer) => answer.json()),
    fetch(url, { method: 'POST', body: '' }).then((answer) => answer.text()),
  ])
  const { connected, revision, newest } = (ready as { readonly fleet: MemberState }).fleet
  return { connected, revision, newest, version: versionIn(answer, '') ?? -1 }
}

function outcomeOf(
  answer: { readonly status: number; readonly body: { readonly code?: string } } | undefined,
) {
  if (!answer) return 'unknown'
  if (answer.status === 200) return 'ok'
  if (answer.status === 412) return 'mismatch'
  // The store did not answer, perhaps after it had stored the change.
  return answer.body.code === 'WASM_SERVE_FLEET_UNAVAILABLE' ? 'unknown' : 'refused'
}

/** The revision of an entity tag: `"FLEET-REVISION-ID"`. */
function revisionOf(tag: string): number {
  const [, revision] = /^"[^-"]+-(\d+)-[^-"]+"$/.exec(tag) ?? []
  if (revision === undefined) throw new Error(`the entity tag ${tag} names no revision`)
  return Number(revision)
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  return items
    .map((item) => [random(), item] as const)
    .sort(([one], [other]) => one - other)
    .map(([, item]) => item)
}
