import { ToolSchemaInvalidError } from '../errors/errors.ts'
import { type JsonText, jsonAt } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Members } from './json-rpc.ts'
import { checkHeader, decodeHeader, headerOf } from './revisions.ts'
import type { RequestHeaders } from './transport-headers.ts'

/** An argument that clients repeat in a header, for intermediaries: the keyword `x-mcp-header` of the input schema. */
export interface ParameterHeader {
  /** The name after `Mcp-Param-`. */
  readonly name: string
  /** The keys that lead to the argument. */
  readonly path: readonly string[]
}

const KEYWORD = 'x-mcp-header'

/**
 * The headers of a tool.
 *
 * @throws {@link ToolSchemaInvalidError} if the keyword is used in a way that clients must refuse.
 */
export function parameterHeadersOf(schema: Members, tool: string): ParameterHeader[] {
  const found = [...headersIn(schema, [])]
  const refuse = (problem: string) =>
    new ToolSchemaInvalidError('input schema', tool, `${KEYWORD} ${problem}`)
  if (found.length !== countIn(schema)) throw refuse('is only for properties of objects within objects')
  for (const { name, type } of found) {
    if (typeof name !== 'string' || !/^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name))
      throw refuse('must be part of a header name')
    if (!TYPES.has(type)) throw refuse('is only for the types string, integer and boolean')
  }
  const names = found.map(({ name }) => String(name))
  if (new Set(names.map((name) => name.toLowerCase())).size < names.length)
    throw refuse('has the same value twice')
  return found.map(({ path }, index) => ({ name: names[index] ?? '', path }))
}

const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean'])

interface Annotated {
  readonly name: unknown
  readonly type: unknown
  readonly path: readonly string[]
}

function* headersIn({ properties }: Members, path: readonly string[]): Generator<Annotated> {
  if (!isObject(properties)) return
  for (const [key, property] of Object.entries(properties)) {
    if (!isObject(property)) continue
    const own = [...path, key]
    if (KEYWORD in property) yield { name: property[KEYWORD], type: property.type, path: own }
    yield* headersIn(property, own)
  }
}

/** All uses of the keyword, wherever they are. A property may have its name. */
function countIn(value: unknown, isProperties = false): number {
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + countIn(item), 0)
  if (!isObject(value)) return 0
  const own = !isProperties && KEYWORD in value ? 1 : 0
  return Object.entries(value).reduce(
    (sum, [key, item]) => sum + countIn(item, !isProperties && key === 'properties'),
    own,
  )
}

/**
 * Compares the headers of a call with its arguments.
 *
 * @throws {@link RpcError} if one is missing or different.
 */
export function checkParameterHeaders(
  declared: readonly ParameterHeader[],
  args: JsonText,
  headers: RequestHeaders,
): void {
  for (const { name, path } of declared) {
    const value = path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), args.value)
    const header = `Mcp-Param-${name}`
    const given = decodeHeader(header, headerOf(headers, header.toLowerCase()))
    if (value === undefined || value === null) {
      if (given !== undefined) checkHeader(header, given, '')
      continue
    }
    const isSameNumber = Number.isSafeInteger(value) && given !== '' && Number(given) === value
    const expected = typeof value === 'string' ? value : (jsonAt(args.text, ...path) ?? '')
    if (!isSameNumber) checkHeader(header, given, expected)
  }
}
