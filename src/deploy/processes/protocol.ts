import type { Change } from '../../mcp/list-changes.ts'
import type { TaskRequest } from '../../mcp/task.ts'
import type { MeterReport } from '../../observe/meter-report.ts'
import type { RateCount } from '../../platform/rate-counts.ts'
import type { TlsSettings } from '../../server/tls.ts'
import type { PreparedRoutes, ReplicaStatus } from '../replica.ts'
import type { Resolved } from '../resolve.ts'
import type { RateQuestion } from './count-together.ts'
import type { ReplicaRequests, SentState } from './remote-replica.ts'

/** What the primary asks a serving process. */
export type ProcessRequests = ReplicaRequests & {
  /** The first request: serves a state. The process has no connections yet. */
  readonly boot: readonly [Boot, PreparedRoutes]
  /** Sends a request to the live routes without a socket. */
  readonly call: readonly [CallRequest, CallAnswer]
  readonly meters: readonly [undefined, readonly MeterReport[]]
  /** The last lines of the log, the oldest first. */
  readonly lines: readonly [undefined, readonly string[]]
  /** Masks more values in the log. */
  readonly mask: readonly [Boot['secrets'], unknown]
  /** The number of running requests of agents with a key. */
  readonly countRequests: readonly [string, number]
  /** Cancels the request of an agent with a key. */
  readonly cancelRequest: readonly [string, unknown]
  /** Tells of changes in another process. */
  readonly announce: readonly [readonly Change[], unknown]
  /** Answers a request about a task of this process. */
  readonly task: readonly [TaskRequest, string | undefined]
  /** Whether a connection, by its number, has arrived with the message that was sent before. */
  readonly hasArrived: readonly [number, boolean]
  /** Drains and ends. */
  readonly drain: readonly [undefined, unknown]
}

/** What a serving process asks the primary. */
export type PrimaryRequests = {
  /** The bytes of a module, by digest. */
  readonly module: readonly [string, Uint8Array]
  /** Counts requests of clients, for the rate limit. */
  readonly count: readonly [readonly RateQuestion[], readonly RateCount[]]
  /** Cancels the request of an agent with a key, whichever process runs it. */
  readonly cancelRequest: readonly [string, unknown]
  /** Tells the other processes of changes. */
  readonly announce: readonly [readonly Change[], unknown]
  /** Passes a request about a task to the process with a number. */
  readonly askTask: readonly [readonly [owner: number, request: TaskRequest], string | undefined]
  /** Answered when no connection will be handed over any more. */
  readonly quiet: readonly [undefined, unknown]
  /** Sent regularly: the sign of life. Without a state while the process starts, or has no descriptor left. */
  readonly beat: readonly [Beat | undefined, unknown]
}

/** What a serving process has to know. */
export interface Boot {
  /** The number of the process, from 1, for logs. */
  readonly number: number
  /** The number of serving processes. */
  readonly count: number
  readonly state: SentState
  /** Options of the start: those that a reload cannot change are the same in all processes. */
  readonly start: Resolved['options']
  /** Whether calls are counted, and the last lines of the log kept, for operators. */
  readonly isWatched: boolean
  /** What the primary has read of the files of `tls`: they may be being renewed. */
  readonly readTls: TlsSettings | undefined
  /** Whether it serves without its store, if that cannot be reached: it replaces a process that was lost. */
  readonly storeMayBeAway: boolean
  /** Seals what clients of tools send back, to any of the processes. */
  readonly stateSecret: string
  /** Values to mask in logs. */
  readonly secrets: readonly (readonly [value: string, shown: string])[]
}

/** The state of a serving process. */
export interface Beat extends ReplicaStatus {
  /** The number of its open connections. */
  readonly connections: number
  /** A problem of the process, and not of a route. */
  readonly trouble?: string | undefined
}

export interface CallRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Uint8Array | undefined
}

export interface CallAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | number | undefined>>
  readonly body: Uint8Array
}

/** Sent with the socket of a connection. */
export interface ConnectionHanded {
  /** The number of the connection in this channel. */
  readonly connection: number
}

/** The answer of a process that has taken a connection. */
export interface ConnectionTaken {
  readonly taken: number
  /** The number of open connections of the process. */
  readonly connections: number
}
