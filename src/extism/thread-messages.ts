import type { GuestConfig, GuestLogger, MemoryOptions } from './guest-context.ts'
import type { Anything } from './output.ts'
import type { GuestOptions, NamedModule } from './plugin.ts'

/** The first message to a thread. */
export interface ThreadStart {
  readonly modules: readonly NamedModule[]
  readonly options: Pick<GuestOptions, 'useWasi' | 'enableWasiOutput' | 'allowedPaths' | 'logLevel'>
  readonly config: GuestConfig
  readonly memoryOptions: MemoryOptions
  /** Names of the host's functions, by namespace. */
  readonly functions: Readonly<Record<string, readonly string[]>>
  /** Memory of the blocks. */
  readonly memory: WebAssembly.Memory
  readonly answer: SharedArrayBuffer
}

/** Calls a function of the guest. The input is in the blocks. */
export interface ThreadCall {
  readonly call: string
}

/** Messages of a thread. The first is `up`; `done` ends the guest's start or a call. */
export type ThreadMessage =
  | { readonly kind: 'up' }
  | { readonly kind: 'done'; readonly failure?: ThreadFailure; readonly code?: number | undefined }
  | { readonly kind: 'log'; readonly level: keyof GuestLogger; readonly line: string }
  | {
      readonly kind: 'host'
      readonly namespace: string
      readonly name: string
      readonly args: readonly Anything[]
    }

/** An error as data: its class is lost between threads. */
export interface ThreadFailure {
  readonly isTrap: boolean
  /** Whether a host function threw. Its error is in the other thread. */
  readonly isOfHost: boolean
  readonly message: string
  readonly stack: string | undefined
}

/** Size of the answer of a host function: a state, and a number at offset 8. */
export const ANSWER_BYTES = 16

/** The state of an answer. */
const ANSWER_STATE = { none: 0, nothing: 1, number: 2, bigint: 3, thrown: 4 } as const

/** Writes the result of a host function, and wakes the thread that waits for it. */
export function writeAnswer(answer: SharedArrayBuffer, returned: unknown, hasThrown = false): void {
  const view = new DataView(answer)
  let state: number = hasThrown ? ANSWER_STATE.thrown : ANSWER_STATE.nothing
  if (typeof returned === 'bigint') {
    view.setBigInt64(8, returned)
    state = ANSWER_STATE.bigint
  } else if (typeof returned === 'number' || typeof returned === 'boolean') {
    view.setFloat64(8, Number(returned))
    state = ANSWER_STATE.number
  }
  const states = new Int32Array(answer, 0, 1)
  Atomics.store(states, 0, state)
  Atomics.notify(states, 0)
}

/** Waits for the result of a host function. @throws the error that `thrown` makes, if the function threw. */
export function waitForAnswer(answer: SharedArrayBuffer, thrown: () => Error): number | bigint | undefined {
  const states = new Int32Array(answer, 0, 1)
  Atomics.wait(states, 0, ANSWER_STATE.none)
  const view = new DataView(answer)
  switch (Atomics.exchange(states, 0, ANSWER_STATE.none)) {
    case ANSWER_STATE.number:
      return view.getFloat64(8)
    case ANSWER_STATE.bigint:
      return view.getBigInt64(8)
    case ANSWER_STATE.thrown:
      throw thrown()
    default:
      return undefined
  }
}
