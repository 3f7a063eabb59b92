import type { FastifyErrorConstructor } from '@fastify/error'
import createError from '@fastify/error'

/**
 * Makes the class of a failure that wasm-serve causes. Texts in its message may come from anybody.
 *
 * @param statusCode - What a client sees.
 * @param isCut - Whether long texts in the message are cut. Default: true.
 */
export function failure<Args extends unknown[]>(
  code: `WASM_SERVE_${string}`,
  message: string,
  statusCode = 500,
  isCut = true,
): FastifyErrorConstructor<{ code: string; statusCode: number }, [...Args, options?: ErrorOptions]> {
  const Failure = createError<string, number, [...Args, options?: ErrorOptions]>(code, message, statusCode)
  classes.set(code, () => Reflect.construct(Failure, []))
  if (!isCut) return Failure
  return new Proxy(Failure, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.map(cut), newTarget),
  })
}

/** Limits of a text in a message, in characters. Some texts are lists with a line for each problem. */
const MAX_LINE = 1_000
const MAX_TEXT = 65_536

function cut(text: unknown): unknown {
  if (typeof text !== 'string' || text.length <= MAX_LINE) return text
  const lines = text.split('\n').map(cutLine).join('\n')
  return lines.length > MAX_TEXT ? `${lines.slice(0, MAX_TEXT)}\n...` : lines
}

/** Keeps the end, which often says what is wrong. */
function cutLine(line: string): string {
  return line.length > MAX_LINE ? `${line.slice(0, MAX_LINE / 2)}...${line.slice(-MAX_LINE / 2)}` : line
}

/** Error classes by code. */
const classes = new Map<string, () => Error>()

/**
 * Rebuilds an error that crossed to another thread, with the class of its code.
 *
 * @returns undefined if no class has this code.
 */
export function restoreError(code: string, message: string, cause: unknown): Error | undefined {
  const make = classes.get(code)
  return make && Object.assign(make(), { message, cause })
}

/** Returns the message followed by the code. The code has its own line if the message has several. A list of failures ends with a code. */
export function messageWithCode({ message, code }: Error & { readonly code: string }): string {
  if (/\(WASM_SERVE_\w+\)$/.test(message)) return message
  return `${message}${message.includes('\n') ? '\n' : ' '}(${code})`
}

/** The fields of a log line about an error. An expected one has no stack. */
export function errorFields(error: unknown): object {
  const isExpected = hasOwnCode(error) && error.code !== 'WASM_SERVE_INTERNAL_ERROR'
  return isExpected ? { code: error.code, reason: error.message } : { err: error }
}

/** Whether the error has a `WASM_SERVE_*` code. */
export function hasOwnCode(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_')
}
