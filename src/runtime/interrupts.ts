import { CHECK_EXPORT } from '../module/names.ts'

/*
 * Guests that check whether they are interrupted (see `module/interruptible.ts`) look at one word of shared memory per
 * thread: the number of the run, and below zero when another thread has interrupted it. A late interruption does not hit the
 * next run, because it has another number.
 */

/** The largest number of a run. */
const MAX_RUN = 0x3fff_ffff

/** Checks between two looks, a power of two up to 64: a check of the shortest loop is some hundred nanoseconds after the one before. */
const CHECKS_PER_LOOK = 64

let memory: WebAssembly.Memory | undefined
let words: Int32Array | undefined
let check: WebAssembly.ExportValue | undefined
let look: (() => void) | undefined

/** Memory for the words of a thread. */
export function newRunMemory(): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
}

/** Sets the memory of this thread before guests run in it. Default: memory of its own. */
export function useRunMemory(given: WebAssembly.Memory): void {
  memory = given
  words = new Int32Array(given.buffer)
}

/** The words of this thread, of which the first is the number of the run; the others are free. */
export function runWords(): Int32Array {
  memory ??= newRunMemory()
  words ??= new Int32Array(memory.buffer)
  return words
}

/**
 * Calls a function from time to time while guests of this thread run: it may interrupt them. For a thread whose words no other
 * thread has. Set before the first instance is opened.
 */
export function lookWhileGuestsRun(given: () => void): void {
  look = given
}

/** @returns the number of the run after this one. */
export function nextRun(run: number): number {
  return (Math.abs(run) % MAX_RUN) + 1
}

/**
 * Interrupts a run of the thread with these words, if it still runs: the guest traps soon.
 *
 * @returns whether it ran.
 */
export function interruptRun(words: Int32Array, run: number): boolean {
  return Atomics.compareExchange(words, 0, run, -run) === run
}

/** Whether the run of this thread was interrupted: its guest will trap, and its host functions need not wait any more. */
export function isInterrupted(): boolean {
  look?.()
  return words !== undefined && Atomics.load(words, 0) < 0
}

/**
 * Lets the guest of an instance check, and runs its start function. Does nothing for guests that cannot be interrupted.
 *
 * @param own - Made by {@link openCheck}. Default: the one of the thread.
 */
export function armChecks(exports: WebAssembly.Exports, own?: WebAssembly.ExportValue): void {
  const table = exports[CHECK_EXPORT.table]
  if (!(table instanceof WebAssembly.Table)) return
  check ??= openCheck()
  table.set(0, own ?? check)
  const start = exports[CHECK_EXPORT.start]
  if (typeof start === 'function') start()
}

/**
 * A function that traps if the word of this thread is below zero.
 *
 * @param left - Counts its calls down, and lets it trap below zero.
 * @param given - Called now and then before. Default: see {@link lookWhileGuestsRun}.
 */
export function openCheck(
  left?: WebAssembly.Global,
  given: WebAssembly.ImportValue | undefined = look,
): WebAssembly.ExportValue | undefined {
  memory ??= newRunMemory()
  const imported = [
    [...name('host'), ...name('words'), 2, 3, 1, 1], // a shared memory
    ...(given ? [[...name('host'), ...name('look'), 0, 0]] : []),
    ...(left ? [[...name('host'), ...name('left'), 3, 0x7f, 1]] : []),
  ]
  const code = [
    ...(left ? COUNT_DOWN : []),
    ...(given ? nowAndThen([CALL, 0], left ? 1 : 0) : []),
    ...TRAP_BELOW_ZERO,
  ]
  const bytes = Uint8Array.of(
    ...HEADER,
    ...section(1, 1, 0x60, 0, 0), // type: () -> ()
    ...section(2, imported.length, ...imported.flat()),
    ...checkOf(code, given ? 1 : 0),
  )
  const imports = { host: { words: memory, ...(given && { look: given }), ...(left && { left }) } }
  return new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports.check
}

/** A function that traps if a function, called now and then, says so. It needs no other thread. */
export function openOwnCheck(isOver: () => boolean): WebAssembly.ExportValue | undefined {
  const bytes = Uint8Array.of(
    ...HEADER,
    ...section(1, 2, 0x60, 0, 0, 0x60, 0, 1, 0x7f), // types: () -> (), () -> i32
    ...section(2, 1, ...name('host'), ...name('isOver'), 0, 1),
    ...checkOf(nowAndThen([CALL, 0, IF, VOID, UNREACHABLE, END], 0), 1),
  )
  return new WebAssembly.Instance(new WebAssembly.Module(bytes), { host: { isOver } }).exports.check
}

const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]
const [UNREACHABLE, IF, VOID, END, CALL] = [0x00, 0x04, 0x40, 0x0b, 0x10]

/** `if (i32.lt_s (i32.atomic.load (i32.const 0)) (i32.const 0)) unreachable`. */
const TRAP_BELOW_ZERO = [0x41, 0, 0xfe, 0x10, 2, 0, 0x41, 0, 0x48, IF, VOID, UNREACHABLE, END]

const name = (text: string) => [text.length, ...Buffer.from(text)]
const section = (id: number, ...bytes: number[]) => [id, bytes.length, ...bytes]

/** `left -= 1; if (left < 0) unreachable`: global 0. */
const COUNT_DOWN = [
  ...[0x23, 0, 0x41, 1, 0x6b, 0x24, 0],
  ...[0x23, 0, 0x41, 0, 0x48, IF, VOID, UNREACHABLE, END],
]

/** Code that runs once in {@link CHECKS_PER_LOOK} times: `if (((counter += 1) & (CHECKS_PER_LOOK - 1)) == 0)`. @param counter - A global. */
const nowAndThen = (code: readonly number[], counter: number) => [
  ...[0x23, counter, 0x41, 1, 0x6a, 0x24, counter],
  ...[0x23, counter, 0x41, CHECKS_PER_LOOK - 1, 0x71, 0x45, IF, VOID, ...code, END],
]

/** The sections of a module with this function, and a counter. @param index - Of the function. */
const checkOf = (code: readonly number[], index: number) => [
  ...section(3, 1, 0),
  ...section(6, 1, 0x7f, 1, 0x41, 0, END),
  ...section(7, 1, ...name('check'), 0, index),
  ...section(10, 1, code.length + 2, 0, ...code, END),
]
