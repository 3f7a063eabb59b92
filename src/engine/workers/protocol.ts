import type { MessagePort } from 'node:worker_threads'
import type { CallFailure } from '../../errors/call-failure.ts'
import type { GuestLogLevel } from '../../observe/log/guest-log.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import type { InstanceSettings } from '../../runtime/runtime.ts'
import type { Isolation } from '../engine.ts'

/*
 * All that crosses between the main thread and a worker thread. Small things go through two rings of shared memory
 * and wake the other side with an empty message; what does not fit is posted, with its bytes transferred.
 */

/** Bytes that each ring holds. */
export const RING_BYTES = 262_144

/** Payloads up to this size go through a ring: copied twice, which is cheaper than to post them. */
export const RING_PAYLOAD = 16_384

/** What a worker is given when it starts. */
export interface WorkerStart {
  readonly plugin: InstantiablePlugin
  readonly settings: Omit<InstanceSettings, 'log' | 'functions' | 'http' | 'vars'>
  /** Module of the user's host functions. */
  readonly functions: string | undefined
  readonly isolation: Isolation
  /** What the host answers for the guest. */
  readonly hostParts: readonly BridgedService[]
  readonly stamp: SharedArrayBuffer
  readonly calls: SharedArrayBuffer
  readonly answers: SharedArrayBuffer
  /** Brings the inputs that are too large for the ring, in its order. */
  readonly inputs: MessagePort
  /** Takes what the guest asks the host for, and brings the answer. */
  readonly host: MessagePort
}

/** What instances are opened from. */
export type InstantiablePlugin = Pick<
  CompiledPlugin,
  'name' | 'digest' | 'module' | 'onDemand' | 'renewable' | 'imports' | 'exports' | 'linked'
>

/** What is asked for over the bridge, in place of the thread's own. */
export type BridgedService = 'http' | 'vars' | 'kv'

/** What the ring of calls carries. */
export const CALL = {
  /** The payload is the name of an export, which `detail` stands for from now on. */
  name: 1,
  /** The payload is the input; `detail` says which export. */
  here: 2,
  /** The same, but the input is the next that `inputs` brings. */
  posted: 3,
} as const

/** What the ring of answers carries. `ms` is how long the guest ran. */
export const ANSWER = {
  /** The payload is the output. */
  output: 1,
  /** The payload is a {@link CallFailure} as JSON. */
  failure: 2,
  /** The payload is a {@link LogLine} as JSON; `call` is 0 if the guest logs while no call runs. */
  log: 3,
} as const

/** One line of a guest, as the log takes it. */
export type LogLine = readonly [level: GuestLogLevel, fields: object, message: string]

/** What a worker posts. */
export type FromWorker =
  /** There is something in the ring. */
  | 'answers'
  /** Its first instance is open, and took so long to. */
  | { readonly startMs: number }
  /** It has none, and ends. */
  | { readonly startFailure: CallFailure }
  /** A record that was too large for the ring, or found it full. */
  | PostedRecord

export interface PostedRecord {
  readonly kind: number
  readonly call: number
  readonly detail: number
  readonly ms: number
  readonly payload: Uint8Array
}

/** What a guest asks the host for, while it waits. */
export interface HostRequest {
  readonly operation: string
  readonly args: readonly unknown[]
}

export type HostAnswer = { readonly value: unknown } | { readonly failure: string }
