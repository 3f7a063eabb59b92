import { fork, type Serializable } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { ProcessEndedError } from '../../errors/errors.ts'
import type { Change } from '../../mcp/list-changes.ts'
import type { TaskRequest } from '../../mcp/task.ts'
import type { MeterReport } from '../../observe/meter-report.ts'
import { servingProgram } from '../../platform/packages.ts'
import type { RateCounts } from '../../platform/rate-counts.ts'
import type { PreparedRoutes, Replica, ServedState } from '../replica.ts'
import type { ConnectionTaker } from './connections.ts'
import { type Answers, type LinkMessage, openLink } from './link.ts'
import type {
  Beat,
  Boot,
  CallAnswer,
  CallRequest,
  ConnectionTaken,
  PrimaryRequests,
  ProcessRequests,
} from './protocol.ts'
import { firstState, remoteReplica } from './remote-replica.ts'

/** A serving process, as the primary sees it. */
export interface ServingProcess extends ConnectionTaker {
  /** From 1. A process that takes the place of another has its number. */
  readonly number: number
  readonly pid: number
  /** The revision of the state that it was started with. */
  readonly firstRevision: number
  /** Resolves with the routes when the process can serve; rejects with the reason that it cannot. Never rejects unhandled. */
  readonly ready: Promise<PreparedRoutes>
  readonly replica: Replica
  /** The last status; undefined before the first. */
  readonly beat: Beat | undefined
  readonly ended: Promise<ProcessEnd>
  call(request: CallRequest): Promise<CallAnswer>
  /** The counts of its calls, if it is watched. */
  meters(): Promise<readonly MeterReport[]>
  /** The last lines of its log, if it is watched. */
  lines(): Promise<readonly string[]>
  /** Lets it mask more values in its log. */
  mask(secrets: Boot['secrets']): void
  /** The number of running requests of agents with a key. */
  countRequests(key: string): Promise<number>
  cancelRequest(key: string): void
  /** Tells it of changes in another process. */
  announce(changes: readonly Change[]): void
  /** Answers a request about a task that it has. undefined: it does not know it. */
  askTask(request: TaskRequest): Promise<string | undefined>
  /** Asks it to drain and to end. */
  drain(): void
  /** Ends it at once. */
  kill(): void
}

/** How a process has ended. */
export interface ProcessEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** What the primary does for a serving process. */
export interface PrimaryServices {
  /** The values to mask in logs. A reload may add some. */
  secrets(): Boot['secrets']
  /** The number of serving processes. */
  readonly count: number
  /** @see {@link Boot.isWatched} */
  readonly isWatched: boolean
  /** @see {@link Boot.start} */
  start(): Boot['start']
  /** @see {@link Boot.readTls} */
  readTls(): Boot['readTls']
  /** @see {@link Boot.stateSecret} */
  readonly stateSecret: string
  /** The counts of the rate limit. */
  readonly rates: RateCounts
  module(digest: string): Promise<Uint8Array>
  /** Cancels the request of an agent with a key, whichever process runs it. */
  cancelRequest(key: string): Promise<void>
  /** Tells the other processes of what plug-ins have changed. */
  announce(changes: readonly Change[], from: ServingProcess): void
  /** Passes a request about a task to the process that has it. */
  askTask(owner: number, request: TaskRequest): Promise<string | undefined>
  /** Waits until this process will get no more connections. */
  quiet(process: ServingProcess): Promise<void>
  /** Called with each sign of life. */
  beat(process: ServingProcess): void
}

/**
 * Starts a serving process with a state.
 *
 * @param storeMayBeAway - See {@link Boot.storeMayBeAway}.
 */
export type StartProcess = (
  number: number,
  state: ServedState,
  services: PrimaryServices,
  storeMayBeAway: boolean,
) => ServingProcess

/** Starts it as a child process, with the standard streams and the environment of this one. */
export const startChildProcess: StartProcess = (number, state, services, storeMayBeAway) => {
  const child = fork(fileURLToPath(servingProgram()), {
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const taking = new Map<number, { resolve(isTaken: boolean): void; reject(reason: Error): void }>()
  let last = 0
  let connections = 0
  let beat: Beat | undefined
  let end: Error | undefined

  child.on('message', (message: LinkMessage | ConnectionTaken) => {
    if (!('taken' in message)) return
    connections = message.connections
    settle(message.taken, true)
  })
  const settle = (id: number, isTaken: boolean) => {
    taking.get(id)?.resolve(isTaken)
    taking.delete(id)
  }
  /** Node.js drops a message whose connection did not get a descriptor in the other process, and reports it to neither. */
  const findLost = async () => {
    for (const id of taking.keys()) if (!(await link.ask('hasArrived', id))) settle(id, false)
  }
  const channel = {
    send(message: object) {
      if (child.connected) child.send(message as Serializable, () => undefined) // a failed write is followed by its end
    },
    onMessage(listener: (message: LinkMessage) => void) {
      child.on('message', (message: LinkMessage | ConnectionTaken) => {
        if (!('taken' in message)) listener(message)
      })
    },
  }
  const answers: Answers<PrimaryRequests> = {
    module: (digest) => services.module(digest),
    count: (questions) => questions.map((question) => services.rates.count(...question)),
    cancelRequest: (key) => services.cancelRequest(key),
    announce: (changes) => services.announce(changes, serving),
    askTask: ([owner, request]) => services.askTask(owner, request),
    quiet: () => services.quiet(serving),
    beat(sent) {
      beat = sent ?? beat
      connections = sent?.connections ?? connections
      findLost().catch(() => undefined) // it has ended
      services.beat(serving)
    },
  }
  const link = openLink<ProcessRequests, PrimaryRequests>(channel, answers)
  const ended = once(child, 'exit')
    .catch((error: Error) => [null, null, error] as const) // it could not be started
    .then(([code, signal, error]): ProcessEnd => {
      end = new ProcessEndedError(number, error?.message ?? renderEnd({ code, signal }))
      link.close(end)
      for (const { reject } of taking.values()) reject(end)
      return { code, signal }
    })
  const { count, isWatched, stateSecret } = services
  const boot = {
    ...{ number, count, isWatched, stateSecret, state: firstState(state) },
    start: services.start(),
    readTls: services.readTls(),
    storeMayBeAway,
    secrets: services.secrets(),
  }
  const ready = link.ask('boot', boot)
  ready.catch(() => undefined) // whoever waits for it gets it too

  const serving: ServingProcess = {
    number,
    pid: child.pid ?? 0,
    firstRevision: state.revision,
    ready,
    replica: remoteReplica(link, state.configuration),
    ended,
    get beat() {
      return beat
    },
    get connections() {
      return connections
    },
    take(socket: Socket) {
      if (end) return Promise.reject(end)
      const id = ++last
      connections++
      const taken = new Promise<boolean>((resolve, reject) => taking.set(id, { resolve, reject }))
      child.send({ connection: id }, socket, { keepOpen: true }, () => undefined)
      return taken
    },
    call: (request) => link.ask('call', request),
    meters: () => link.ask('meters', undefined),
    lines: () => link.ask('lines', undefined),
    mask: (secrets) => void link.ask('mask', secrets).catch(() => undefined), // it has ended
    countRequests: (key) => link.ask('countRequests', key),
    cancelRequest: (key) => void link.ask('cancelRequest', key).catch(() => undefined), // it has ended
    announce: (changes) => void link.ask('announce', changes).catch(() => undefined), // it has ended
    askTask: (request) => link.ask('task', request),
    drain: () => void link.ask('drain', undefined).catch(() => undefined), // it has ended
    kill: () => void child.kill('SIGKILL'),
  }
  return serving
}

/** How a process has ended, as text. */
export function renderEnd({ code, signal }: ProcessEnd): string {
  return signal ?? `exit code ${code}`
}
