import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { ChangeRefusedError } from '../../errors/errors.ts'
import { errorFields } from '../../errors/failure.ts'
import { shareDescriptors } from '../../observe/log/lines.ts'
import type { Meters } from '../../observe/metrics.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import { unlessAborted } from '../../platform/event-loop.ts'
import { RateCounts } from '../../platform/rate-counts.ts'
import type { DrainOptions } from '../../server/drain.ts'
import type { RunningServer } from '../../server/server.ts'
import { readTls, type TlsSettings } from '../../server/tls.ts'
import { type Deployments, reload } from '../deployments.ts'
import {
  countsOf,
  type OwnReplica,
  type PreparedRoutes,
  type ReplicaStatus,
  type ResolvedRoutes,
  type ServedState,
} from '../replica.ts'
import {
  type FirstPlan,
  moduleOf,
  type Resolved,
  type ResolvedState,
  Resolver,
  type StateChange,
} from '../resolve.ts'
import { changeServer } from '../start.ts'
import type { EditStore } from '../state-folder.ts'
import { announceChanges, askTask, cancelRequest } from './agent-requests.ts'
import { Change, onceMore, RollCall } from './change.ts'
import { type Clock, realClock } from './clock.ts'
import { type ConnectionListener, listenForProcesses } from './connections.ts'
import { DrainBarrier } from './drain-barrier.ts'
import { openForwardingApp } from './forwarding-app.ts'
import { ProcessMeters } from './process-meters.ts'
import {
  type PrimaryServices,
  type ServingProcess,
  type StartProcess,
  startChildProcess,
} from './serving-process.ts'
import { sharedRoute } from './shared-route.ts'
import { Silence } from './silence.ts'
import { type ProcessInfo, ProcessSupervisor, StartFailures, type SupervisorOwner } from './supervisor.ts'
import { Swaps } from './swaps.ts'

/** How long after `drainMs` the listener closes even if a process is not ready for that. */
const LATE_QUIET_MS = 500

/** How long after `drainMs` and `graceMs` processes are killed. */
const LATE_END_MS = 1_200

/** How long a process may take to send its log lines. */
const LINES_MS = 300

/** Serving processes, seen from their primary, which serves nothing itself and compiles no plug-in. */
export interface Processes {
  /** Processes in the order of their numbers. */
  readonly list: readonly ProcessInfo[]

  /** Starts the processes with the first state. @throws the reason that they cannot serve it. */
  open(first: FirstPlan): Promise<OwnReplica>

  /** The call metrics of each process, by its number; empty if they are disabled. */
  readonly meters: ReadonlyMap<number, Meters>

  /** Brings the call metrics up to date. */
  refresh(): Promise<void>

  /** The last log lines of all processes. */
  lines(): Promise<readonly string[]>

  /** Listens for the processes, which changes of the deployments reach. @throws `ListenError` */
  serve(deployments: Deployments): Promise<RunningServer>

  /**
   * Reloads the configuration, and replaces the processes one after another, without losing a request. New ones have the
   * options that a reload cannot change, except those of the primary: its addresses, its state folder, their number.
   *
   * @throws the reason that the reload is refused, or that a new process cannot serve: those that were not replaced yet
   * stay. {@link ChangeRefusedError} during another restart, and during a shutdown.
   */
  restart(reason: string): Promise<void>

  /** Requests a restart after the running one, if there is one. A signal does so and gets no answer: a failure is logged. */
  requestRestart(reason: string): void

  /** Ends all processes at once, for the exit of this one. */
  kill(): void
}

/** The input of {@link openProcesses}. */
interface ProcessesOptions extends Pick<PrimaryServices, 'secrets' | 'count'> {
  /** Resident memory above which a process is replaced, in bytes. */
  readonly memoryMax?: number | undefined
  /** Time without a sign of life after which a process is replaced, in milliseconds. */
  readonly silentMs?: number | undefined
  readonly log: FastifyBaseLogger
  /** Get the sum of the call metrics of all processes, if they are enabled. */
  readonly meters?: Meters | undefined
  /** Default: child processes. */
  readonly start?: StartProcess
  readonly clock?: Clock
}

export function openProcesses(options: ProcessesOptions): Processes {
  shareDescriptors()
  return new ReplicaSet(options)
}

/** A change between its preparation and its end. */
interface PendingState {
  readonly state: ServedState
  readonly resolved: ResolvedState
  readonly change: Change
  /** undefined while it is being prepared. */
  routes?: readonly ServedRoute[]
}

/** All replicas commit a state, or none does. */
class ReplicaSet implements Processes, OwnReplica, SupervisorOwner {
  readonly compiles = false

  readonly log: FastifyBaseLogger
  readonly clock: Clock
  readonly failures = new StartFailures()
  readonly silence: Silence
  readonly #slots: readonly ProcessSupervisor[]
  readonly #all = new Set<ServingProcess>()
  readonly app = openForwardingApp((request) => {
    const process = this.#anyServing()
    return this.silence.answer(process, process.call(request))
  })
  readonly #rollCall: RollCall
  readonly #services: PrimaryServices
  readonly #start: StartProcess
  readonly #meters: ProcessMeters | undefined
  readonly #ending = new AbortController()
  readonly ending = this.#ending.signal
  readonly #failed: Promise<string>
  /** What new processes serve. */
  #state: ServedState | undefined
  #resolver: Resolver | undefined
  #store: EditStore | undefined
  #routes: readonly ServedRoute[] = []
  /** Options of the start, and of each restart. */
  #startOptions: Resolved['options'] | undefined
  /** Read by the start, and by each restart. */
  #tls: TlsSettings | undefined
  /** Fetch the modules of the state, and of the one being prepared. */
  #modules: ReturnType<typeof moduleOf>[] = []
  /** Processes that start meanwhile join after it. */
  #pending: PendingState | undefined
  readonly #swaps: Swaps
  #deployments: Deployments | undefined
  #listener: ConnectionListener | undefined
  #quiet: DrainBarrier | undefined

  constructor(options: ProcessesOptions) {
    const {
      log,
      count,
      secrets,
      memoryMax,
      silentMs,
      meters,
      start = startChildProcess,
      clock = realClock,
    } = options
    this.log = log
    this.clock = clock
    const onChange = (process: ServingProcess, isSilent: boolean) => this.#onSilence(process, isSilent)
    this.silence = new Silence({ log, maxMs: silentMs, onChange, clock })
    this.#start = start
    this.#swaps = new Swaps(this, memoryMax)
    this.#meters = meters && new ProcessMeters(meters, () => this.#heard())
    this.#slots = Array.from({ length: count }, (_, index) => new ProcessSupervisor(index + 1, this))
    this.#rollCall = new RollCall(() => this.#serving(), this.silence, clock)
    this.#services = {
      ...{ secrets, count, isWatched: meters !== undefined, rates: new RateCounts() },
      stateSecret: randomBytes(32).toString('base64url'),
      readTls: () => this.#tls,
      start: () => known(this.#startOptions),
      module: (digest) => (this.#modules.at(-1) ?? missing)(digest),
      cancelRequest: (key) => cancelRequest(key, this.#heard()),
      announce: (changes, from) => announceChanges(changes, from, this.#heard()),
      askTask: (owner, request) => askTask(owner, request, this.#serving()),
      quiet: (process) => this.#stopHanding(process),
      beat: (process) => {
        this.silence.hear(process)
        const slot = this.#slots[process.number - 1]
        if (slot) this.#swaps.lookAtMemory(slot)
      },
    }
    this.#failed = new Promise((resolve) => {
      this.failures.onOpen = () => {
        if (this.#serving().length === 0) resolve('no serving process can be started')
      }
    })
  }

  get list(): readonly ProcessInfo[] {
    return this.#slots.map(({ info }) => info)
  }

  get meters(): ReadonlyMap<number, Meters> {
    return this.#meters?.byNumber ?? new Map()
  }

  async refresh(): Promise<void> {
    await this.#meters?.refresh()
  }

  async lines(): Promise<readonly string[]> {
    const all = this.#heard().map(({ lines }) => lines().catch(() => [])) // it has ended
    const late = sleep(LINES_MS, [])
    return (await Promise.all(all.map((lines) => Promise.race([lines, late])))).flat()
  }

  get routes(): readonly ServedRoute[] {
    return this.#routes
  }

  async open(first: FirstPlan): Promise<OwnReplica> {
    const { desired, edits, options, plugins, store } = first
    const { revision, configuration } = desired
    this.#store = store
    this.#modules = [moduleOf(plugins, store)]
    this.#startOptions = { ...options, routes: [] }
    this.#tls = options.tls && readTls(options.tls)
    this.#state = { revision, configuration, edits }
    try {
      const [started] = await Promise.all(this.#slots.map((slot) => slot.start()))
      this.#routes = this.#share(started?.routes ?? [], revision)
      this.#resolver = new Resolver(first, this.log)
      return this
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** Prepares on every process that is not silent, or on none. */
  async prepare(
    { revision, ...asked }: ServedState & StateChange,
    reason: string,
    signal?: AbortSignal,
  ): Promise<ResolvedRoutes> {
    if (this.#pending) await this.abort(this.#pending.state.revision)
    const resolved = await known(this.#resolver).resolve(asked, signal)
    const processes = await unlessAborted(this.#rollCall.present(this.ending), signal)
    if (processes.length === 0) throw new ChangeRefusedError('no serving process runs')
    for (const process of processes) process.mask(this.#services.secrets())
    this.#modules = [...this.#modules.slice(0, 1), moduleOf(resolved.plugins, this.#store)]
    const change = new Change(processes, this.silence)
    const state = { revision, configuration: asked.configuration, edits: resolved.edits }
    const pending: PendingState = { state, resolved, change }
    this.#pending = pending
    try {
      const { routes, kept } = await change.prepare(state, reason, signal)
      pending.routes = this.#share(routes, revision)
      return { routes: pending.routes, kept, resolved }
    } catch (error) {
      await this.abort(revision)
      throw error
    }
  }

  /** Never rejects: a process that does not commit is replaced. */
  async commit(revision: number): Promise<void> {
    const pending = this.#pending
    if (pending?.state.revision !== revision || !pending.routes)
      throw new ChangeRefusedError(`revision ${revision} is not prepared`)
    const { state, resolved, change, routes } = pending
    this.#state = state
    this.#routes = routes
    this.#modules = this.#modules.slice(-1)
    this.#decide(change)
    const fields = await change.commit(revision)
    known(this.#resolver).adopt(resolved)
    this.log.info(fields, 'committed by all processes')
  }

  async abort(revision: number): Promise<void> {
    if (this.#pending?.state.revision !== revision) return
    const { change } = this.#pending
    this.#decide(change)
    await change.abort(revision)
  }

  async status(): Promise<ReplicaStatus> {
    const beats = this.#serving().map(({ beat }) => beat)
    return {
      revision: known(this.#state).revision,
      prepared: this.#pending?.routes && this.#pending.state.revision,
      memoryBytes: beats.reduce((sum, beat) => sum + (beat?.memoryBytes ?? 0), 0),
      ...countsOf(this.#routes),
    }
  }

  async close(): Promise<void> {
    this.#ending.abort()
    this.kill()
    await Promise.all([...this.#all].map(({ ended }) => ended))
    this.silence.close()
    this.#meters?.close()
    await this.app.close()
  }

  kill(): void {
    for (const process of this.#all) process.kill()
  }

  async serve(deployments: Deployments): Promise<RunningServer> {
    const { options } = deployments.current
    const listener = await listenForProcesses(options).catch(async (error) => {
      await deployments.close()
      throw error
    })
    this.#listener = listener
    this.#deployments = deployments
    for (const process of this.#serving()) listener.add(process)
    const replace = async () => undefined // the processes replace their apps
    const stop = await changeServer(deployments, { replace }, this.log)
    let ended: Promise<void> | undefined
    const drain = async () => {
      stop()
      await this.#drain(listener, options)
      await deployments.close()
    }
    return {
      url: listener.url,
      failed: this.#failed,
      replace,
      drain() {
        ended ??= drain()
        return ended
      },
    }
  }

  async restart(reason: string): Promise<void> {
    const deployments = this.#deployments
    if (!deployments) throw new ChangeRefusedError('processes are being replaced')
    await this.#swaps.all(this.#slots, reason, () => this.#renew(deployments, reason))
  }

  requestRestart(reason: string): void {
    const restart = async () => {
      if (!this.ending.aborted) await onceMore(() => this.restart(reason))
    }
    this.#swaps
      .request(restart)
      .catch((error) => this.log.error(errorFields(error), 'the serving processes were not restarted'))
  }

  start(number: number, storeMayBeAway: boolean): ServingProcess {
    if (!this.#state) throw new Error('there is no state to serve')
    const process = this.#start(number, this.#state, this.#services, storeMayBeAway)
    this.#all.add(process)
    this.silence.add(process)
    void process.ended.then((end) => {
      this.#all.delete(process)
      announceChanges([{ tasksOf: number }], process, this.#heard())
      this.#pending?.change.end(process, end)
      this.#meters?.end(process)
      this.#quiet?.add(process)
    })
    return process
  }

  async isOutdated({ firstRevision }: ServingProcess): Promise<boolean> {
    while (this.#pending) await this.#pending.change.decided
    return !this.ending.aborted && firstRevision !== this.#state?.revision
  }

  async admit(process: ServingProcess, join: () => void): Promise<void> {
    for (let revision = process.firstRevision; ; ) {
      while (this.#pending) await this.#pending.change.decided
      const state = this.#state
      if (!state || revision === state.revision) break
      await this.silence.wait(process, process.replica.prepare(state, 'start'))
      await this.silence.wait(process, process.replica.commit(state.revision))
      revision = state.revision
    }
    this.ending.throwIfAborted()
    // In the same step, so that no change comes between.
    join()
    this.#listener?.add(process)
    this.#rollCall.join()
  }

  dismiss(process: ServingProcess): void {
    this.#listener?.remove(process)
    void this.silence.wait(process, process.ended) // it drains
  }

  #decide(change: Change): void {
    this.#pending = undefined
    this.#modules = this.#modules.slice(0, 1)
    change.decide()
  }

  #share(routes: PreparedRoutes['routes'], revision: number): ServedRoute[] {
    const reports = () => this.#serving()
    return routes.map((route, index) => sharedRoute(route, index, revision, reports))
  }

  #serving(): ServingProcess[] {
    return this.#slots.flatMap(({ serving }) => serving ?? [])
  }

  /** Processes that respond: requests to silent ones would pile up. */
  #heard(): ServingProcess[] {
    return [...this.#all].filter((process) => !this.silence.isSilent(process))
  }

  #anyServing(): ServingProcess {
    const first = this.#serving().find((process) => !this.silence.isSilent(process))
    if (!first) throw new ChangeRefusedError('no serving process runs')
    return first
  }

  /** Renews what new processes are started with. @returns takes it back. */
  async #renew(deployments: Deployments, reason: string): Promise<() => void> {
    await deployments.apply(reload, reason)
    const { options } = deployments.current
    const [tls, start] = [this.#tls, this.#startOptions]
    this.#tls = options.tls && readTls(options.tls)
    this.#startOptions = { ...options, routes: [] }
    return () => {
      this.#tls = tls
      this.#startOptions = start
    }
  }

  /** A process that is silent gets no connections. */
  #onSilence(process: ServingProcess, isSilent: boolean): void {
    if (isSilent) this.#listener?.remove(process)
    else if (this.#serving().includes(process)) this.#listener?.add(process)
  }

  /** Called by a process that drains: resolves when it will get no connection any more. */
  async #stopHanding(process: ServingProcess): Promise<void> {
    if (this.#quiet) return this.#quiet.add(process)
    this.dismiss(process)
    this.#slots[process.number - 1]?.retire(process)
  }

  /** Clients of processes that hold their answers back open no connections: then the listener closes without a reset. */
  async #drain(listener: ConnectionListener, { drainMs, graceMs }: DrainOptions): Promise<void> {
    this.#ending.abort()
    const processes = this.#serving()
    for (const { starting } of this.#slots) starting?.kill()
    const quiet = new DrainBarrier(processes, drainMs + LATE_QUIET_MS)
    this.#quiet = quiet
    for (const process of processes) process.drain()
    const ended = Promise.all([...this.#all].map((process) => this.silence.wait(process, process.ended)))
    const late = setTimeout(() => this.kill(), drainMs + graceMs + LATE_END_MS)
    await quiet.begun
    await listener.end()
    quiet.end()
    await ended
    clearTimeout(late)
  }
}

const missing = (digest: string) => Promise.reject(new Error(`module ${digest} is missing`))

function known<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('the processes have not started')
  return value
}
