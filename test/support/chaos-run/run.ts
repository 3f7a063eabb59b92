import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openProxy, type TcpProxy } from '../fleet/tcp-proxy.ts'
import { randomOf } from '../random.ts'
import { freePort, startRedis } from '../redis.ts'
import { startClients } from './clients.ts'
import { attack, changeVersion, injectFaults, resetVersion, type StoreProcess, type World } from './faults.ts'
import { chooseHostile } from './hostile.ts'
import { clientPortsOf, filesIn, holdingsOf, processesOf } from './resources.ts'
import { openHttp1 } from './senders.ts'
import { type AdminAnswer, type ChaosServer, type Listener, startChaosServer } from './server.ts'
import { type Loss, Tally } from './tally.ts'
import { openLooseVersions, openVersions } from './versions.ts'

export interface ScenarioOptions {
  readonly name: string
  /** Of each node of a fleet; of one, which is no fleet. */
  readonly listeners: readonly Listener[]
  readonly seed: number
  /** How long faults happen. */
  readonly seconds: number
  /** How long clients run without faults before resources are counted. */
  readonly warmUpSeconds: number
  readonly progress?: (line: string) => void
}

export interface ScenarioResult {
  readonly name: string
  readonly requests: number
  readonly ends: ReadonlyMap<string, ReadonlyMap<string, number>>
  readonly faults: ReadonlyMap<string, number>
  /** Serving processes that ended, each counted once. */
  readonly lostProcesses: number
  /** Requests without an answer, whose process had ended. */
  readonly lost: number
  /** What each server held before the faults and afterwards. */
  readonly held: readonly { readonly what: string; readonly before: string; readonly after: string }[]
  readonly keys: number
  readonly recoveredMs: number
  readonly problems: readonly string[]
  /** Warnings and errors of the log, and how often. */
  readonly messages: ReadonlyMap<string, number>
}

/** After the faults a server may take so long until it serves as before, and holds what it held. */
const RECOVER_MS = 180_000

/** Logged when a process begins to drain. */
const REPLACED = 'a serving process was replaced'

/** The holder of each connection is looked up this often. */
const WATCH_MS = 300

/** A loss of which the holder is not known may be so far from the end of a process. */
const NEAR_MS = 5_000

/** Serves, with faults by the seed, and compares. What must not happen is in `problems`. @throws if it does not start. */
export async function runScenario(options: ScenarioOptions): Promise<ScenarioResult> {
  const { name, listeners, seed, progress = () => undefined } = options
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-chaos-'))
  const store = await openStore(folder)
  const proxies: TcpProxy[] = []
  const servers: ChaosServer[] = []
  const mounts: string[] = []
  let isKept = true
  try {
    for (const [node, listener] of listeners.entries()) {
      const own = join(folder, `n${node}`)
      const space = join(own, 'space')
      mkdirSync(space, { recursive: true })
      if (mount(space)) mounts.push(space)
      const proxy = await openProxy(store.port)
      proxies.push(proxy)
      const fleet = listeners.length > 1 ? { fleet: { port: proxy.port, node: `n${node}` } } : {}
      servers.push(await startChaosServer({ folder: own, listener, storePort: proxy.port, ...fleet }))
    }
    const run = new Scenario(options, servers, proxies, store, mounts.length === listeners.length)
    const result = await run.run()
    isKept = result.problems.length > 0
    if (isKept) progress(`${name}, seed ${seed}: logs are in ${folder}`)
    return result
  } finally {
    for (const { pid, child } of servers) {
      for (const each of processesOf(pid)) if (each.kind !== 'primary') kill(each.pid)
      child.kill('SIGKILL')
    }
    for (const proxy of proxies) await proxy.close()
    await store.kill()
    for (const space of mounts) execFileSync('umount', ['--lazy', space])
    if (!isKept) rmSync(folder, { recursive: true, force: true })
  }
}

class Scenario {
  readonly #options: ScenarioOptions
  readonly #world: World
  readonly #tally = new Tally()
  readonly #written = new Map<string, string>()
  /** When a fault has begun to affect a serving process. */
  readonly #harmed = new Map<number, number>()
  /** The process that has the connection of a client's port. */
  readonly #holders = new Map<number, { readonly pid: number; readonly at: number }>()
  readonly #progress: (line: string) => void

  constructor(
    options: ScenarioOptions,
    servers: readonly ChaosServer[],
    proxies: readonly TcpProxy[],
    store: StoreProcess,
    canFill: boolean,
  ) {
    const { seed, listeners, name, progress } = options
    const isFleet = listeners.length > 1
    this.#options = options
    this.#progress = (line) => progress?.(`${name}: ${line}`)
    this.#world = {
      ...{ servers, proxies, store, canFill, isFleet, tally: this.#tally, random: randomOf(seed) },
      versions: isFleet ? openLooseVersions(0) : openVersions(0),
      harm: (pid) => {
        this.#watch()
        this.#harmed.set(pid, Date.now())
      },
      changing: Promise.resolve(),
      version: 0,
    }
  }

  async run(): Promise<ScenarioResult> {
    const { seconds, warmUpSeconds, name } = this.#options
    const { servers, tally } = { servers: this.#world.servers, tally: this.#tally }
    await this.#recover()
    await this.#warmUp(warmUpSeconds)
    const configured = await Promise.all(servers.map(configurationOf))
    const before = await this.#settle()
    this.#progress(`before: ${renderHeld(before)}`)

    const watching = setInterval(() => this.#watch(), WATCH_MS)
    const clients = this.#startClients()
    const end = Date.now() + seconds * 1_000
    const telling = setInterval(() => this.#tell(), 60_000)
    const faults = await injectFaults(this.#world, end)
    await clients.stop()
    clearInterval(telling)
    clearInterval(watching)
    this.#progress('the faults are over')
    for (const { child, pid } of this.#world.servers)
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`the server ${pid} has ended with ${child.exitCode ?? child.signalCode}`)

    const { recoveredMs, after, lost, messages } = await this.#close(configured, before)
    return {
      ...{ name, requests: tally.total, ends: tally.ends, faults, lost, recoveredMs, messages },
      lostProcesses: this.#endings().size,
      held: comparison(before, after),
      keys: this.#written.size,
      problems: tally.problems,
    }
  }

  /** What must hold after the faults; ends the servers. */
  async #close(configured: readonly string[], before: readonly Map<string, string>[]) {
    const { servers, tally } = { servers: this.#world.servers, tally: this.#tally }
    const begun = performance.now()
    await this.#recover()
    const recoveredMs = performance.now() - begun
    this.#progress(`ready after ${Math.round(recoveredMs)} ms`)
    const losses = tally.losses.length
    const answered = tally.answered()
    await this.#warmUp(this.#options.warmUpSeconds)
    for (const [kind, count] of answered)
      if (tally.answered().get(kind) === count)
        tally.problem(`after the faults: ${kind}: nothing is answered`)
    for (const { kind, reason } of tally.losses.slice(losses))
      tally.problem(`after the faults: ${kind}: ${reason}`)
    for (const [node, now] of (await Promise.all(servers.map(configurationOf))).entries()) {
      if (now !== configured[node]) tally.problem(`another configuration: ${configured[node]} ${now}`)
    }
    await this.#readAll()
    const after = await this.#settle(before)
    this.#progress(`after: ${renderHeld(after)}`)
    const lost = this.#checkLosses(tally.losses.slice(0, losses))
    const messages = new Map<string, number>()
    for (const server of servers)
      for (const [text, count] of server.messages) messages.set(text, (messages.get(text) ?? 0) + count)
    await Promise.all(servers.map((server) => this.#end(server)))
    return { recoveredMs, after, lost, messages }
  }

  #startClients() {
    const { servers, tally, random, versions } = { ...this.#world, tally: this.#tally }
    const written = this.#written
    const all = servers.map(({ target }) =>
      startClients({ target, tally, random, versions, written, pauseMs: 100 }),
    )
    return { stop: () => Promise.all(all.map((clients) => clients.stop())) }
  }

  /** All that a run does, without faults: so that caches, threads and buffers have come to be. */
  async #warmUp(seconds: number): Promise<void> {
    for (const server of this.#world.servers) {
      await untilOk(() => server.ask('POST', '/api/restart'))
      server.renewCertificate()
    }
    const clients = this.#startClients()
    await changeVersion(this.#world)
    await changeVersion(this.#world)
    await attack(this.#world, { ...chooseHostile(() => 0.9), name: 'of the warm-up' })
    for (const server of this.#world.servers) await untilOk(() => server.ask('POST', '/api/reload'))
    await sleep(seconds * 1_000)
    await clients.stop()
    await untilOk(() => resetVersion(this.#world))
    for (const server of this.#world.servers) await untilOk(() => server.ask('POST', '/api/restart'))
    const again = this.#startClients()
    await sleep(seconds * 1_000)
    await again.stop()
  }

  /** Back to what was configured, until all say that they serve it. */
  async #recover(): Promise<void> {
    const end = Date.now() + RECOVER_MS
    for (const server of this.#world.servers) server.configure()
    for (;;) {
      const reasons = await Promise.all(this.#world.servers.map(unready))
      const missing = reasons.filter((reason) => reason !== undefined)
      if (missing.length === 0) break
      if (Date.now() > end) throw new Error(`not ready again: ${missing.join(', ')}`)
      await sleep(200)
    }
    await untilOk(async () => {
      const answer = await resetVersion(this.#world)
      // A full disk may have stopped the last rollout: then its operator has to roll it back.
      if (this.#world.isFleet && answer.status === 409)
        await this.#world.servers[0]?.ask('POST', '/api/fleet/rollback')
      return answer
    })
  }

  /** Waits until what is held is `wanted`, or until it does not change. */
  async #settle(wanted?: readonly Map<string, string>[]): Promise<Map<string, string>[]> {
    const end = Date.now() + RECOVER_MS
    let last = ''
    let same = 0
    for (;;) {
      const held = this.#world.servers.map(({ pid, folders }) => holdingsOf(pid, folders))
      const shown = renderHeld(held)
      same = shown === last ? same + 1 : 0
      last = shown
      const isDone = wanted === undefined ? same >= 10 : comparison(wanted, held).every(isKept)
      if (isDone) return held
      if (Date.now() > end) {
        if (wanted !== undefined)
          for (const each of comparison(wanted, held))
            if (!isKept(each))
              this.#tally.problem(`left over: ${each.what}: ${each.before}, then ${each.after}`)
        return held
      }
      await sleep(1_000)
    }
  }

  #watch(): void {
    const at = Date.now()
    for (const { pid, target } of this.#world.servers) {
      if (target.socketPath !== undefined) continue
      for (const each of processesOf(pid))
        if (each.kind === 'serving')
          for (const port of clientPortsOf(each.pid)) this.#holders.set(port, { pid: each.pid, at })
    }
  }

  #tell(): void {
    const { problems, losses, total } = this.#tally
    this.#progress(`${total} requests, ${losses.length} lost, ${problems.length} problems`)
    for (const problem of problems.slice(-5)) this.#progress(problem)
  }

  /** When each serving process that did not drain ended, by its id. */
  #endings(): Map<number, number> {
    const endings = new Map<number, number>()
    for (const { lines } of this.#world.servers)
      for (const { msg, pid, at } of lines) if (pid !== undefined && msg !== REPLACED) endings.set(pid, at)
    return endings
  }

  /**
   * A request may be lost if the process of its connection was lost, or if that process drains, and closes a connection while the next
   * request is on its way. @returns how many were.
   */
  #checkLosses(losses: readonly Loss[]): number {
    const endings = this.#endings()
    const times = [...endings.values(), ...this.#harmed.values()]
    const drained = this.#world.servers.flatMap(({ lines }) =>
      lines.flatMap(({ msg, at }) => (msg === REPLACED ? [at] : [])),
    )
    const isNear = (at: number) => (time: number) => Math.abs(time - at) < NEAR_MS
    for (const { kind, port, at, reason, isClosable } of losses) {
      if (isClosable && drained.some(isNear(at))) continue
      const holder = port === undefined ? undefined : this.#holders.get(port)
      const isKnown = holder !== undefined && Math.abs(holder.at - at) < NEAR_MS
      const isExcused = isKnown
        ? endings.has(holder.pid) || this.#harmed.has(holder.pid)
        : times.some(isNear(at))
      if (!isExcused)
        this.#tally.problem(
          `${kind}: lost at ${new Date(at).toISOString()} without a reason: ${reason}, port ${port}, process ${holder?.pid}`,
        )
    }
    return losses.length
  }

  /** All that the store has acknowledged is there. */
  async #readAll(): Promise<void> {
    const [server] = this.#world.servers
    if (!server) return
    const sender = openHttp1(server.target)
    for (const [key, value] of this.#written) {
      const { status, body } = await sender.send('/get', key)
      if (status !== 200 || body !== value) this.#tally.problem(`the key ${key} is lost: ${status} ${body}`)
    }
    sender.close()
  }

  async #end({ child, ended, pid, folders }: ChaosServer): Promise<void> {
    const all = processesOf(pid).map((each) => each.pid)
    child.kill('SIGTERM')
    const late = sleep(RECOVER_MS, 'late' as const, { ref: false })
    const end = await Promise.race([ended, late])
    if (end === 'late' || end[0] !== 0) this.#tally.problem(`SIGTERM ended it with ${end}`)
    const left = all.filter(isAlive)
    if (left.length > 0) this.#tally.problem(`processes are left: ${left}`)
    const files = filesIn(folders.temporary ?? '')
    if (files.length > 0) this.#tally.problem(`temporary files are left: ${files}`)
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function kill(pid: number): void {
  if (isAlive(pid)) process.kill(pid, 'SIGKILL')
}

function comparison(before: readonly Map<string, string>[], after: readonly Map<string, string>[]) {
  return before.flatMap((held, node) =>
    [...held].map(([what, value]) => {
      const name = before.length > 1 ? `node ${node}: ${what}` : what
      return { what: name, before: value, after: after[node]?.get(what) ?? '' }
    }),
  )
}

/** Of each count, in order, no more. */
function isKept({ before, after }: { readonly before: string; readonly after: string }): boolean {
  const [had, has] = [before.split(', ').map(Number), after.split(', ').map(Number)]
  return had.length === has.length && has.every((count, i) => count <= (had[i] ?? 0))
}

function renderHeld(held: readonly Map<string, string>[]): string {
  return held.map((each) => [...each].map(([what, value]) => `${what} ${value}`).join('; ')).join(' | ')
}

/** Makes a change, again while it is refused. @throws if that takes too long. */
async function untilOk(change: () => Promise<AdminAnswer>): Promise<void> {
  const end = Date.now() + RECOVER_MS
  for (;;) {
    const { status, body } = await change()
    if (status < 300) return
    if (Date.now() > end) throw new Error(`refused: ${status} ${JSON.stringify(body)}`)
    await sleep(500)
  }
}

/** What is served, without counters. */
async function configurationOf(server: ChaosServer): Promise<string> {
  const { body } = await server.ask('GET', '/api/routes')
  const plain = ({ calls, failures, guestMs, trouble, ...route }: Record<string, unknown>) => route
  return JSON.stringify(body.map(plain))
}

/** @returns why a server does not serve all again; undefined if it does. */
async function unready(server: ChaosServer): Promise<string | undefined> {
  try {
    const ready = await server.ask('GET', '/readyz')
    if (ready.status !== 200) return `/readyz is ${ready.status}: ${JSON.stringify(ready.body)}`
    const { body } = await server.ask('GET', '/api/processes')
    const other = body.find(({ state }: { state: string }) => state !== 'serving')
    if (other) return `a process is ${other.state}`
    const overview = await server.ask('GET', '/api')
    if (overview.body.behind) return `behind: ${JSON.stringify(overview.body.behind)}`
    return undefined
  } catch (error) {
    return String(error)
  }
}

/** A file system of its own for a state folder, if this user may mount one. */
function mount(folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=192m', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** A store that loses nothing that it has acknowledged. */
async function openStore(folder: string): Promise<StoreProcess & { readonly port: number }> {
  const data = join(folder, 'store')
  mkdirSync(data)
  const port = await freePort()
  const flags = ['--dir', data, '--appendonly', 'yes', '--appendfsync', 'always']
  let redis = await startRedis(flags, port)
  return {
    port,
    signal: (name) => void redis.process.kill(name),
    kill: () => redis.stop(),
    async restart() {
      await redis.stop() // another fault may have started it
      redis = await startRedis(flags, port)
    },
  }
}
