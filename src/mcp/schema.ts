import type { ErrorObject, KeywordDefinition } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { ToolSchemaInvalidError } from '../errors/errors.ts'
import { isObject } from '../platform/json-text.ts'
import { linearPattern } from '../platform/linear-pattern.ts'
import { schemasIn } from './dialects.ts'
import type { Members } from './json-rpc.ts'

/** Checks a value of JSON. @returns the reason that it does not fit, or undefined. */
export type Check = (value: unknown) => string | undefined

/** Limits on the schema of a tool. */
const LIMITS = {
  /** Nested schemas. */
  depth: 32,
  /** Schemas that a check may visit, with each reference followed once per use. */
  visits: 10_000,
} as const

/** Problems that a message lists. */
const MAX_PROBLEMS = 10

/** Maximum characters of a message, as a client sees it. */
const MAX_MESSAGE = 1_000

/** All problems are looked for if schemas times values are not more. Otherwise the first one counts: each takes memory. */
const MAX_SEARCH = 100_000

/**
 * Compiles a JSON Schema (2020-12). Formats are annotations, as the standard's default is. Patterns are
 * matched without backtracking, because plug-ins write them, and clients the texts. References must lead into the
 * schema itself: nothing is fetched.
 *
 * @param kind - `input schema` or `output schema`, for messages.
 * @throws {@link ToolSchemaInvalidError} if it is not a valid schema, or too large.
 */
export function compileSchema(schema: Members, kind: string, tool: string): Check {
  const refuse = (problem: string) => new ToolSchemaInvalidError(kind, tool, problem)
  const size = sizeOf(schema)
  const problem = problemWithSize(size)
  if (problem !== undefined) throw refuse(problem)
  try {
    const isValid = compilerOf({ allErrors: false }).compile(schema)
    const search = once(() => compilerOf({ allErrors: true }).compile(schema))
    return (value) => {
      try {
        if (isValid(value)) return undefined
        const finds = hasMoreValues(value, MAX_SEARCH / size) ? isValid : search()
        if (finds !== isValid) finds(value)
        return renderErrors(finds.errors ?? [])
      } catch (error) {
        if (error instanceof RangeError) return 'it takes too many steps to check'
        throw error
      }
    }
  } catch (error) {
    throw refuse(error instanceof Error ? error.message.slice(0, MAX_MESSAGE) : 'it is not valid')
  }
}

/**
 * Why clients cannot compile a JSON Schema (2020-12). It is not compiled here: that would take long for the many schemas of a plug-in that
 * checks its arguments itself.
 *
 * @returns undefined if it is valid.
 */
export function problemWithSchema(schema: Members): string | undefined {
  const validator = schemaValidator()
  try {
    if (validator.validateSchema(schema) !== true) return renderErrors(validator.errors ?? [])
  } catch (error) {
    return error instanceof Error ? error.message.slice(0, MAX_MESSAGE) : 'it is not valid'
  }
  const names = { anchors: new Set<string>(), ids: new Set<string>() }
  const references: Reference[] = []
  findReferences(schema, schema, names, references)
  const lost = references.find(({ ref, resource }) => !leadsSomewhere(ref, resource, names))
  return lost && `it has no ${lost.ref.slice(0, MAX_MESSAGE)}`
}

const schemaValidator = once(() => new Ajv2020({ strict: false, validateFormats: false, logger: false }))

interface Reference {
  readonly ref: string
  /** The schema that a pointer of the reference starts from. */
  readonly resource: Members
}

/** Names of schemas that references use. */
interface SchemaNames {
  readonly anchors: Set<string>
  readonly ids: Set<string>
}

function findReferences(schema: Members, root: Members, names: SchemaNames, found: Reference[]): void {
  const { $ref, $dynamicRef, $anchor, $dynamicAnchor, $id } = schema
  const resource = typeof $id === 'string' ? schema : root
  if (typeof $id === 'string') names.ids.add($id)
  for (const anchor of [$anchor, $dynamicAnchor]) if (typeof anchor === 'string') names.anchors.add(anchor)
  for (const ref of [$ref, $dynamicRef]) if (typeof ref === 'string') found.push({ ref, resource })
  for (const each of schemasIn(schema)) findReferences(each, resource, names, found)
}

/** Whether a reference leads into the document. */
function leadsSomewhere(ref: string, resource: Members, { anchors, ids }: SchemaNames): boolean {
  const [id = '', fragment = ''] = ref.split('#')
  if (id !== '') return ids.has(id)
  if (fragment === '' || fragment.startsWith('/')) return resolveRef(resource, ref) !== undefined
  return anchors.has(fragment)
}

function compilerOf({ allErrors }: { readonly allErrors: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    ...{ strict: false, validateFormats: false, allErrors, logger: false },
    code: { regExp: Object.assign(linearPattern, { code: 'linearPattern' }) },
  })
  return ajv.removeKeyword('uniqueItems').addKeyword(UNIQUE_ITEMS)
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Whether a value of JSON consists of more than this many values. It counts no further. */
function hasMoreValues(root: unknown, limit: number): boolean {
  const open: unknown[] = [root]
  for (let count = 0; open.length > 0; ) {
    const value = open.pop()
    if (++count + open.length > limit) return true
    if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) open.push(item)
  }
  return false
}

/** Compares the items as texts. Ajv compares each with each other: for a million, for days. */
const UNIQUE_ITEMS: KeywordDefinition = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  validate: (isUnique: boolean, items: readonly unknown[]) =>
    !isUnique || new Set(items.map((item) => JSON.stringify(item, sorted))).size === items.length,
  error: { message: 'must not have duplicate items' },
}

/** The order of the keys of an object does not matter. */
function sorted(_key: string, value: unknown): unknown {
  if (!isObject(value)) return value
  return { members: Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)) }
}

function renderErrors(errors: readonly ErrorObject[]): string {
  const lines = errors.map(({ instancePath, keyword, params, message = 'is wrong' }) => {
    const where = instancePath === '' ? 'the value' : instancePath
    const unknown = keyword === 'additionalProperties' ? `: ${String(params.additionalProperty)}` : ''
    const expected = keyword === 'enum' ? params.allowedValues : params.allowedValue
    return `${where} ${message}${unknown}${expected === undefined ? '' : `: ${JSON.stringify(expected)}`}`
  })
  return [...new Set(lines)].slice(0, MAX_PROBLEMS).join('; ').slice(0, MAX_MESSAGE)
}

function problemWithSize(size: number): string | undefined {
  if (size === Number.POSITIVE_INFINITY) return `it is nested deeper than ${LIMITS.depth} levels`
  return size > LIMITS.visits ? `a check of it may take more than ${LIMITS.visits} steps` : undefined
}

/**
 * The number of schemas that a check visits; infinite if they are nested too deeply. A small schema may take exponential time, where
 * several references lead to each next one.
 */
function sizeOf(root: Members): number {
  const costs = new Map<object, number>()
  const open = new Set<object>()
  const costOf = (value: unknown, depth: number): number => {
    if (typeof value !== 'object' || value === null || open.has(value)) return 0
    if (depth > LIMITS.depth) return Number.POSITIVE_INFINITY
    const known = costs.get(value)
    if (known !== undefined) return known
    open.add(value)
    let cost = 1
    for (const [key, item] of Object.entries(value)) {
      if (key === 'enum' || key === 'const' || key === '$defs' || key === 'definitions') continue
      cost += key === '$ref' ? costOf(resolveRef(root, item), depth + 1) : costOf(item, depth + 1)
    }
    open.delete(value)
    costs.set(value, cost)
    return cost
  }
  return costOf(root, 0)
}

/** The part of a schema that a local reference names, a JSON pointer. Other references are left to the compiler. */
export function resolveRef(root: unknown, ref: unknown): unknown {
  if (typeof ref !== 'string' || !ref.startsWith('#')) return undefined
  const steps = ref.slice(1).split('/').slice(1)
  return steps.reduce<unknown>((value, step) => {
    const key = safeDecode(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(value)) return value[Number(key)]
    return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  }, root)
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
