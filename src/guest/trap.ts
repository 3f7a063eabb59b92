/** Most frames of a guest's stack that a log line names. */
const MAX_FRAMES = 10

/** A line is as long as the guest's names are. Of one that is longer only the function's number is read. */
const MAX_LINE = 1_000

const MAX_LINE_END = 64

const LINE_END = /wasm-function\[(\d+)\]:0x[0-9a-f]+\)?$/

/** Why a guest stopped half-way: what the engine says, and which of the guest's functions were running. */
export interface Trap {
  /** The engine's reason, such as `unreachable` or `memory access out of bounds`. */
  readonly reason: string
  /** Names of the guest's functions, innermost first, from the name section; `#12` where there is no name. */
  readonly guestStack: readonly string[]
}

/** Reads a thrown value as a trap. Frames of the host are left out: they are nobody's business. */
export function describeTrap(thrown: unknown): Trap {
  if (!(thrown instanceof Error)) return { reason: String(thrown), guestStack: [] }
  const frames = (thrown.stack ?? '').split('\n').map(guestFunction)
  return {
    reason: thrown.message,
    guestStack: frames.filter((name) => name !== undefined).slice(0, MAX_FRAMES),
  }
}

/**
 * V8 writes `at module.name (wasm://wasm/module-1f2e:wasm-function[5]:0x67)`. The module's name is left out where the
 * name section has none, the function's likewise.
 */
function guestFunction(line: string): string | undefined {
  if (line.length > MAX_LINE) {
    const index = LINE_END.exec(line.slice(-MAX_LINE_END))?.[1]
    return index && `#${index}`
  }
  const frame = /^\s+at (?:(.*) \()?wasm:\/\/wasm\/(?:(.*)-)?[0-9a-f]+:wasm-function\[(\d+)\]/.exec(line)
  if (!frame) return undefined
  const [, name, module, index] = frame
  const unqualified = module && name?.startsWith(`${module}.`) ? name.slice(module.length + 1) : name
  return unqualified && unqualified !== module ? unqualified : `#${index}`
}
