import createError, { type FastifyErrorConstructor } from '@fastify/error'

/** Makes the class of a failure that wasm-serve causes. @param statusCode - What a client sees. */
export function failure<Args extends unknown[]>(
  code: `WASM_SERVE_${string}`,
  message: string,
  statusCode = 500,
): FastifyErrorConstructor<{ code: string; statusCode: number }, [...Args, options?: ErrorOptions]> {
  const made = createError<string, number, [...Args, options?: ErrorOptions]>(code, message, statusCode)
  classes.set(code, () => Reflect.construct(made, []))
  return made
}

/** By their codes. */
const classes = new Map<string, () => Error>()

/**
 * An error that was taken apart to cross to another thread, of the class that it had.
 *
 * @returns undefined if the code is none of ours.
 */
export function restoreError(code: string, message: string, cause: unknown): Error | undefined {
  const make = classes.get(code)
  return make && Object.assign(make(), { message, cause })
}
