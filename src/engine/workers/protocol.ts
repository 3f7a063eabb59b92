import type { MessagePort } from 'node:worker_threads'
import type { CallFailure } from '../../errors/call-failure.ts'
import type { InstanceServices, ServiceRequest } from '../../guest/services/service.ts'
import type { GuestLogLevel } from '../../observe/log/guest-log.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import type { InstanceSettings } from '../../runtime/runtime.ts'
import type { Isolation } from '../engine.ts'
import type { PostedBlocks } from './shared-blocks.ts'

/*
 * The protocol between the main thread and a worker thread. Small payloads pass through two rings of shared memory, and an
 * empty message wakes the other side. Large ones stay in the blocks of the guest, which both threads share, or are posted, with
 * their bytes transferred.
 */

/** Size of each ring in bytes. */
export const RING_BYTES = 1_048_576

/** Payloads up to this size pass through a ring: copying twice is cheaper than posting. */
export const RING_PAYLOAD = 262_144

/** From this size on, an input or output is better left where the guest has it, even if the thread has to wait for it. */
export const PLACED_BYTES = 32_768

/** The start data of a worker: its first message. */
export interface WorkerStart {
  readonly plugin: InstantiablePlugin
  readonly settings: Omit<InstanceSettings, 'log' | 'memories' | keyof InstanceServices>
  /** Module of the user's host functions. */
  readonly functions: string | undefined
  readonly isolation: Isolation
  /** The names of the services that the guest reaches on the main thread. */
  readonly services: readonly string[]
  readonly threadState: WebAssembly.Memory
  readonly calls: SharedArrayBuffer
  readonly answers: SharedArrayBuffer
  /** Carries inputs that are too large for the ring, in its order. */
  readonly inputs: MessagePort
  /** Carries the guest's requests to the host and the answers. */
  readonly host: MessagePort
  /** Number of calls that it runs at a time, while their guests are suspended. 1: it runs them in order. */
  readonly concurrent: number
  /** Maximum guest time of a call, in ms: a suspended guest does not continue after it. */
  readonly timeoutMs: number
  /** Carries the requests of suspended guests; undefined if it runs calls in order. */
  readonly suspended: MessagePort | undefined
}

/** A plug-in to try: threads that do that try one after another. */
export type TrialStart = Omit<
  WorkerStart,
  'calls' | 'answers' | 'inputs' | 'concurrent' | 'timeoutMs' | 'suspended'
>

/** Messages of a thread that tries plug-ins: a log line of the guest; the time that opening an instance took, in ms; or why it failed. */
export type FromTrial =
  | { readonly line: LogLine }
  | { readonly startMs: number }
  | { readonly startFailure: CallFailure }

/** The data for opening instances. */
export type InstantiablePlugin = Pick<
  CompiledPlugin,
  | 'name'
  | 'digest'
  | 'module'
  | 'fewExports'
  | 'resettable'
  | 'merge'
  | 'memories'
  | 'imports'
  | 'exports'
  | 'linked'
>

/** Kinds of records in the ring of calls. */
export const CALL = {
  /** The payload is the name of an export, which `detail` denotes from now on. */
  name: 1,
  /** The payload is the input; `detail` denotes the export. */
  here: 2,
  /** `detail` denotes the export; the input is the next one on `inputs`. */
  posted: 3,
  /** `detail` denotes the export; the input is in the blocks. */
  placed: 4,
} as const

/** Kinds of records in the ring of answers. `ms` is the guest time. */
export const ANSWER = {
  /** The payload is the output. */
  output: 1,
  /** The payload is a {@link CallFailure} as JSON. */
  failure: 2,
  /** The payload is a {@link LogLine} as JSON; `call` is 0 if no call runs. */
  log: 3,
  /** The output is in the blocks. */
  placed: 4,
} as const

/** One log line of a guest. */
export type LogLine = readonly [level: GuestLogLevel, fields: object, message: string]

/** A message to a worker after the first: calls wait in its ring. */
export const WAKE = 0

/** Messages of a worker. */
export type FromWorker =
  /** The ring has new records. */
  | 'answers'
  /** The first instance is open. */
  | { readonly isReady: true }
  /** The start failed and the worker ends. */
  | { readonly startFailure: CallFailure }
  /** An instance uses new blocks. */
  | PostedBlocks
  /** A record that did not fit into the ring. */
  | PostedRecord

export interface PostedRecord {
  readonly kind: number
  readonly call: number
  readonly detail: number
  readonly ms: number
  readonly payload: Uint8Array
}

/** The answer to a {@link ServiceRequest}. */
export type HostAnswer = { readonly value: unknown } | { readonly failure: string }

/** A request of a guest that is suspended until the answer comes. */
export interface SuspendedRequest extends ServiceRequest {
  /** The number of its call. */
  readonly call: number
}

export interface SuspendedAnswer {
  readonly call: number
  /** undefined: the guest must not continue. */
  readonly answer: HostAnswer | undefined
}
