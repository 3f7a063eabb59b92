import type { FastifyErrorConstructor } from '@fastify/error'
import createError from '@fastify/error'

/** All that is written about a failure. The build leaves out what only docs/reference/errors.md shows: site, cause and remedy. */
export type FailureEntry = FailureTexts &
  ({ readonly status: number; readonly site?: FailureSite } | { readonly site: FailureSite })

interface FailureTexts {
  /** Never renamed or reused. */
  readonly code: `WASM_SERVE_${string}`
  /** Whether a user has to correct something first: the same attempt fails again, and the command exits with 2 instead of 1. */
  readonly isMistake?: true
  /** What failed, the limit that it met, what to do. Its `%s` (texts) and `%d` (numbers) are the arguments of the class. */
  readonly message: string
  /** Whether long texts in the message stay whole. Default: each line is cut. */
  readonly isWhole?: true
  readonly cause: string
  readonly remedy: string
}

/** Where a failure appears. The default is an answer with its status; elsewhere the default of the status is 500. */
type FailureSite = 'log' | 'command' | 'guest' | 'extism'

/** The class of a failure. A last argument can have its `cause`. */
type FailureClass<Code extends string, Message extends string> = FastifyErrorConstructor<
  { code: Code; statusCode: number },
  [...ValuesIn<Message>, options?: ErrorOptions]
>

type ValuesIn<Message extends string> = Message extends `${string}%${infer Kind}${infer Rest}`
  ? [Kind extends 'd' ? number : string, ...ValuesIn<Rest>]
  : []

/** Makes the class of a failure that wasm-serve causes. Texts in its message may come from anybody. */
export function failure<Code extends string, Message extends string>(
  entry: FailureEntry & { readonly code: Code; readonly message: Message },
): FailureClass<Code, Message> {
  const { code, message, isWhole } = entry
  const Failure: FailureClass<Code, Message> = createError(code, message, statusOf(entry))
  classes.set(code, { entry, make: () => Reflect.construct(Failure, []) })
  if (isWhole) return Failure
  return new Proxy(Failure, {
    construct: (target, args, newTarget) => Reflect.construct(target, args.map(cut), newTarget),
  })
}

/** The status that a client sees. */
export function statusOf(entry: FailureEntry): number {
  return 'status' in entry ? entry.status : 500
}

/** The entries of all classes that are loaded. */
export function failureEntries(): FailureEntry[] {
  return [...classes.values()].map(({ entry }) => entry)
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

/** Error classes by code, with their entries. */
const classes = new Map<string, { readonly entry: FailureEntry; readonly make: () => Error }>()

/**
 * Rebuilds an error that crossed to another thread, with the class of its code.
 *
 * @returns undefined if no class has this code.
 */
export function restoreError(code: string, message: string, cause: unknown): Error | undefined {
  const found = classes.get(code)
  return found && Object.assign(found.make(), { message, cause })
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

/** Whether only users can repair what the error reports. A list of failures is a mistake if one of them is: the others do not matter until then. */
export function isMistake(error: unknown): boolean {
  if (!hasOwnCode(error)) return false
  if (error.cause instanceof AggregateError) return error.cause.errors.some(isMistake)
  return classes.get(error.code)?.entry.isMistake === true
}

/** Whether the error has a `WASM_SERVE_*` code. */
export function hasOwnCode(
  error: unknown,
): error is Error & { readonly code: string; readonly statusCode?: number } {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_')
}
