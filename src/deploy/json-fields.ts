/* Reads data of JSON texts that may be wrong. Problems name the member by its path. */

/** The first problem of a JSON text. */
export class JsonProblem extends Error {}

type JsonObject = Readonly<Record<string, unknown>>

/** @throws {@link JsonProblem} */
export function expect(isRight: boolean, problem: string): asserts isRight {
  if (!isRight) throw new JsonProblem(problem)
}

export function readObject(value: unknown, where: string): JsonObject {
  expect(typeof value === 'object' && value !== null && !Array.isArray(value), `${where} is not an object`)
  return value as JsonObject
}

export function readArray(
  value: unknown,
  where: string,
): readonly (readonly [item: unknown, where: string])[] {
  expect(Array.isArray(value), `${where} is not a list`)
  return value.map((item, index) => [item, `${where}[${index}]`])
}

export function readTextField(value: unknown, where: string): string {
  expect(typeof value === 'string', `${where} is not a string`)
  return value
}

/** A digest, which becomes a file name. */
export function readDigest(value: unknown, where: string): string {
  expect(typeof value === 'string' && /^[\da-f]{64}$/.test(value), `${where} is not a SHA-256 digest`)
  return value
}

export function wholeNumber(
  value: unknown,
  where: string,
  least = 0,
  most = Number.MAX_SAFE_INTEGER,
): number {
  expect(
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most,
    `${where} is not an integer from ${least} to ${most}`,
  )
  return Number(value)
}

export function readBoolean(value: unknown, where: string): boolean {
  expect(typeof value === 'boolean', `${where} is neither true nor false`)
  return value
}

export function optional<Value>(
  value: unknown,
  where: string,
  read: (value: unknown, where: string) => Value,
): Value | undefined {
  return value === undefined ? undefined : read(value, where)
}
