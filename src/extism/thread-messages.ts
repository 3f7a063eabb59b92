import type { Anything } from './output.ts'
import type { GuestConfig, GuestLogger, GuestOptions, MemoryOptions, NamedModule } from './plugin.ts'

/** What a thread starts with. */
export interface ThreadStart {
  readonly modules: readonly NamedModule[]
  readonly options: Pick<GuestOptions, 'useWasi' | 'enableWasiOutput' | 'allowedPaths' | 'logLevel'>
  readonly config: GuestConfig
  readonly memoryOptions: MemoryOptions
  /** Names of the host's functions, by namespace. */
  readonly functions: Readonly<Record<string, readonly string[]>>
  /** That of the blocks. */
  readonly memory: WebAssembly.Memory
  readonly answer: SharedArrayBuffer
}

/** Names the function of the guest that is to be called; the input is in the blocks. */
export interface ThreadCall {
  readonly call: string
}

/** What a thread says. First that it is `up`; `done` is what the guest's start, or a call, ends with. */
export type ThreadMessage =
  | { readonly kind: 'up' }
  | { readonly kind: 'done'; readonly failure?: ThreadFailure }
  | { readonly kind: 'log'; readonly level: keyof GuestLogger; readonly line: string }
  | {
      readonly kind: 'host'
      readonly namespace: string
      readonly name: string
      readonly args: readonly Anything[]
    }

/** An error loses its class between threads. */
export interface ThreadFailure {
  readonly isTrap: boolean
  /** Whether it is what a host function threw: that is in the other thread. */
  readonly isOfHost: boolean
  readonly message: string
  readonly stack: string | undefined
}

/** Bytes of what a host function answers: a state, and after 8 bytes a number. */
export const ANSWER_BYTES = 16

/** The state of an answer. */
export const ANSWER = { none: 0, nothing: 1, number: 2, bigint: 3, thrown: 4 } as const

/** Writes what a host function returned, or that it threw, and wakes the thread that waits for it. */
export function writeAnswer(answer: SharedArrayBuffer, returned: unknown, hasThrown = false): void {
  const view = new DataView(answer)
  let state: number = hasThrown ? ANSWER.thrown : ANSWER.nothing
  if (typeof returned === 'bigint') {
    view.setBigInt64(8, returned)
    state = ANSWER.bigint
  } else if (typeof returned === 'number' || typeof returned === 'boolean') {
    view.setFloat64(8, Number(returned))
    state = ANSWER.number
  }
  const states = new Int32Array(answer, 0, 1)
  Atomics.store(states, 0, state)
  Atomics.notify(states, 0)
}

/** Waits for what a host function answers. @throws what `thrown` makes, if it threw. */
export function readAnswer(answer: SharedArrayBuffer, thrown: () => Error): number | bigint | undefined {
  const states = new Int32Array(answer, 0, 1)
  Atomics.wait(states, 0, ANSWER.none)
  const view = new DataView(answer)
  switch (Atomics.exchange(states, 0, ANSWER.none)) {
    case ANSWER.number:
      return view.getFloat64(8)
    case ANSWER.bigint:
      return view.getBigInt64(8)
    case ANSWER.thrown:
      throw thrown()
    default:
      return undefined
  }
}
