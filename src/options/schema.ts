import { didYouMean } from '../platform/text.ts'
import { hostProblem } from '../plugin/source/allowed-hosts.ts'
import type { OptionFacts } from './schema/facts.ts'

/*
 * The language of the options schemas, and the check of values against them: as much of JSON Schema as the options need, and
 * keywords of our own. The code that Ajv generates for the same check has 0.8 MB.
 */

/** A JSON schema, with keywords of our own. */
export interface Schema {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  /** At most one pattern, for all keys. */
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minItems?: number
  readonly uniqueItems?: boolean
  readonly anyOf?: readonly Schema[]
  readonly pluginSource?: true
  readonly hostFunctions?: true
  readonly callHook?: true
  readonly threadCount?: true
  readonly allowedHost?: true
  readonly nameOrContract?: readonly string[]
  /** The message for a value that its type or pattern rejects; of an object with a pattern of keys, for a key. */
  readonly hint?: string
  /** Values that are right, for messages and editors. */
  readonly examples?: readonly unknown[]
  /** The unit of the number. */
  readonly unit?: 'bytes' | 'pages' | 'ms'
  /** Whether its value is masked entirely, from any origin. */
  readonly secret?: true
  /** Whether every client knows its text, so that variables in it are no secrets. */
  readonly public?: true
  /** The kind of paths in its value: they are relative to the file. */
  readonly holds?: 'path' | 'source' | 'folders' | 'folder' | 'store' | 'address'
  /** What is known of the option besides its values. */
  readonly facts?: OptionFacts
}

/** The options of a schema, with the keywords that are read here. */
export function schemasOf({ properties }: { readonly properties: object }): Record<string, Schema> {
  return Object.fromEntries(Object.entries<Schema>({ ...properties }))
}

/** A problem with the options. */
export interface Problem {
  /** The option's name, or the path to it, such as `routes[0].url`. */
  readonly option: string
  /** The path as a list of keys. */
  readonly path: readonly string[]
  /** Whether the key is the problem; otherwise its value is. */
  readonly ofKey: boolean
  readonly message: string
}

/** A problem with the value at a path such as `routes`, `0`, `url`. */
export function problemAt(path: readonly string[], message: string): Problem {
  return { option: path.reduce(join, ''), path, ofKey: false, message }
}

/** Joins a path: `routes`, then `0`, is `routes[0]`. */
function join(parent: string, child: string): string {
  if (/^\d+$/.test(child)) return `${parent}[${child}]`
  return parent ? `${parent}.${child}` : child
}

/**
 * Checks a value.
 *
 * @param schema - A {@link Schema}, or one of TypeBox, whose types say less.
 * @param found - Receives each problem, of a value only the first.
 * @returns a copy in which missing options have their defaults. What the schema does not describe is not copied: bytes, a
 * loaded plug-in, functions.
 */
export function checkValue(value: unknown, schema: object, found: Problem[]): unknown {
  return copyChecked(value, { ...schema }, [], found)
}

/** @param path - It changes later: problems get a copy. */
function copyChecked(value: unknown, schema: Schema, path: string[], found: Problem[]): unknown {
  const message = problemWith(value, schema)
  if (message !== undefined) {
    const problem = problemAt([...path], message)
    found.push({ ...problem, option: problem.option || 'options' })
    return value
  }
  const { items } = schema
  if (items && Array.isArray(value))
    // which may have holes
    return Array.from(value, (item, index) => copyEntry(String(index), item, items, path, found))
  const hasEntries = schema.properties ?? schema.patternProperties ?? schema.additionalProperties
  return hasEntries && isObject(value) ? copyEntries(value, schema, path, found) : value
}

function copyEntry(name: string, value: unknown, schema: Schema, path: string[], found: Problem[]): unknown {
  path.push(name)
  const copy = copyChecked(value, schema, path, found)
  path.pop()
  return copy
}

function copyEntries(
  values: Readonly<Record<string, unknown>>,
  schema: Schema,
  path: string[],
  found: Problem[],
): object {
  const { properties = NONE, required = [] } = schema
  for (const name of required)
    if (values[name] === undefined)
      found.push({ ...problemAt([...path], 'is missing'), option: [...path, name].reduce(join, '') })
  const entries: [string, unknown][] = []
  for (const name of Object.keys(values)) {
    if (Object.hasOwn(properties, name)) continue
    const other = schemaOfOther(name, schema)
    if (other) entries.push([name, copyEntry(name, values[name], other, path, found)])
    else found.push({ ...problemAt([...path, name], problemWithKey(name, schema)), ofKey: true })
  }
  for (const name of Object.keys(properties)) {
    const one = properties[name]
    const value = values[name] === undefined ? one?.default : values[name]
    if (one && value !== undefined) entries.push([name, copyEntry(name, value, one, path, found)])
  }
  // An option may be called `__proto__`. An object that gets its properties one by one would be slow to copy.
  return Object.fromEntries(entries)
}

const NONE: Readonly<Record<string, Schema>> = {}

/** The schema of a value whose key is not among the properties. */
function schemaOfOther(
  name: string,
  { patternProperties = {}, additionalProperties }: Schema,
): Schema | undefined {
  const [, schema] = Object.entries(patternProperties).find(([source]) => patternOf(source).test(name)) ?? []
  if (schema) return schema
  if (additionalProperties === false) return undefined
  return typeof additionalProperties === 'object' ? additionalProperties : {}
}

function problemWithKey(name: string, { properties = {}, patternProperties, hint }: Schema): string {
  if (patternProperties) return hint ?? 'is not valid as a name here'
  const names = Object.keys(properties)
  const meant = didYouMean(name, names)
  return `unknown option${meant || (names.length > MAX_SHOWN ? '' : `; there are ${names.join(', ')}`)}`
}

/** Names that a message can list. */
const MAX_SHOWN = 12

/** The reason that a value does not fit, apart from the values in it. */
function problemWith(value: unknown, schema: Schema): string | undefined {
  if (schema.pluginSource && !isTextOrObject(value)) return 'must be a path or URL, bytes, or a manifest'
  if (schema.hostFunctions && !isTextOrObject(value))
    return 'must be the path of a module or an object of functions'
  if (schema.callHook && typeof value !== 'function') return 'must be a function'
  if (schema.threadCount && !isThreadCount(value)) return 'must be a whole number from 0 to 256, or auto'
  if (schema.nameOrContract && !schema.nameOrContract.includes(value as string) && !isContract(value))
    return `${oneOf(schema.nameOrContract, value)}${typeof value === 'string' ? '' : ', or a contract'}`
  if (schema.anyOf && !schema.anyOf.some((each) => isValid(value, each))) {
    const names = schema.anyOf[0]?.enum
    return names
      ? `must be one or several of ${names.join(', ')}${meantOf(names, value)}`
      : 'must be a text, or a list of texts'
  }
  if (schema.type !== undefined && !isOfType(value, schema.type)) return problemWithType(value, schema)
  if (schema.enum && !schema.enum.includes(value)) return oneOf(schema.enum, value)
  if (typeof value === 'number') return problemWithNumber(value, schema)
  if (typeof value === 'string') return problemWithText(value, schema)
  return Array.isArray(value) ? problemWithList(value, schema) : undefined
}

function oneOf(names: readonly unknown[], value: unknown): string {
  return `must be one of ${names.join(', ')}${meantOf(names, value)}`
}

function meantOf(names: readonly unknown[], value: unknown): string {
  const wrong = [value].flat().find((each) => !names.includes(each))
  return typeof wrong === 'string' ? didYouMean(wrong, names.map(String)) : ''
}

/** The message for a value of another type. It does not have the value, which may be secret. */
function problemWithType(value: unknown, schema: Schema): string {
  if (typeof value === 'number' && schema.type === 'string') return 'must be text: put it in quotes'
  if (schema.type === 'string' && value !== null) return schema.hint ?? 'must be text'
  if (value === null) return `has no value: it must be ${wantedType(schema)}`
  const { items } = schema
  if (items?.type !== undefined && !isObject(value) && isOfType(value, items.type))
    return 'must be a list: put it in [ ]'
  const isQuoted = typeof value === 'string' && isOfType(parseScalar(value), schema.type ?? '')
  return `must be ${wantedType(schema)}${isQuoted ? ': remove the quotes' : ''}`
}

function parseScalar(text: string): unknown {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text
}

function wantedType({ type = '', properties = {}, required = [], examples, unit }: Schema): string {
  const what = `${TYPES[type] ?? type}${type === 'integer' && unit ? ` of ${UNITS[unit]}` : ''}`
  if (examples) return `${what}, such as ${JSON.stringify(examples[0])}`
  const [name] = [...required, ...Object.keys(properties)]
  if (name !== undefined) return `${what}, such as { ${name}: ... }`
  return type === 'object' ? `${what} of names and values` : what
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  array: 'a list',
  object: 'an object',
}

const UNITS = { bytes: 'bytes', pages: 'pages of 64 KiB', ms: 'ms' } as const

function problemWithNumber(value: number, { minimum, maximum, unit }: Schema): string | undefined {
  if (value >= (minimum ?? value) && value <= (maximum ?? value)) return undefined
  const shown = unit === undefined ? '' : ` ${UNITS[unit]}${unit === 'pages' ? ', at most 4 GiB' : ''}`
  if (maximum === undefined) return `must be ${minimum}${shown} or more`
  return minimum === undefined
    ? `must be ${maximum}${shown} or less`
    : `must be from ${minimum} to ${maximum}${shown}`
}

function problemWithText(text: string, schema: Schema): string | undefined {
  const { minLength = 0, maxLength, pattern, hint } = schema
  if (text.length < minLength) return 'must not be empty'
  if (maxLength !== undefined && [...text].length > maxLength)
    return `must have at most ${maxLength} characters`
  if (pattern !== undefined && !patternOf(pattern).test(text))
    return hint ?? 'has invalid characters, or is empty'
  return schema.allowedHost ? hostProblem(text) : undefined
}

function problemWithList(
  list: readonly unknown[],
  { minItems = 0, uniqueItems }: Schema,
): string | undefined {
  if (list.length < minItems) return 'must not be empty'
  return uniqueItems && new Set(list).size < list.length ? 'must not have duplicate items' : undefined
}

function isValid(value: unknown, schema: Schema): boolean {
  const found: Problem[] = []
  checkValue(value, schema, found)
  return found.length === 0
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value)
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    default:
      return typeof value === type
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The contents of such an object are checked by their users. */
function isTextOrObject(value: unknown): boolean {
  return typeof value === 'string' ? value !== '' : typeof value === 'object' && value !== null
}

function isThreadCount(value: unknown): boolean {
  return value === 'auto' || (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 256)
}

function isContract(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.name === 'string' &&
    typeof value.input === 'function' &&
    typeof value.answer === 'function'
  )
}

/** `.` stands for a line break too: a key with one must not evade the pattern of all keys. */
function patternOf(source: string): RegExp {
  return new RegExp(source, 'su')
}
