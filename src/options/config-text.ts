import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  Parser,
} from 'yaml'
import { parseJson } from '../platform/json-text.ts'
import type { Environment } from './config.ts'
import type { ConfigEntry, ConfigMap, ConfigNode, ConfigScalar, FilePosition } from './config-node.ts'

/** The languages of config files. */
export type ConfigFormat = 'json' | 'yaml'

/** A problem with a config file. */
export interface FileProblem {
  readonly place: FilePosition
  readonly message: string
}

/** The parsed text of a config file. */
export interface ConfigText {
  /** undefined if the text has a syntax error; then there are problems. */
  readonly node: ConfigNode | undefined
  readonly problems: readonly FileProblem[]
}

/** A line and column of a text, from 1. */
interface Position {
  readonly line: number
  readonly column: number
}

/**
 * Maximum nesting: a valid configuration has four levels. It bounds the recursion, and a YAML alias cannot contain
 * itself.
 */
const MAX_CONFIG_NESTING = 32

/** Maximum number of values in a file, including those repeated by YAML aliases. */
const MAX_VALUES = 20_000

/**
 * Parses JSON (RFC 8259) or YAML 1.2 (its core schema) into values with their positions. One parser finds the positions
 * in both; JSON must pass `JSON.parse` first, so that YAML syntax is not accepted there.
 *
 * In YAML the key `<<` merges maps. Keys at the top that begin with `x-` are left out: anchors are put there.
 *
 * Rejected in both: duplicate keys, keys of every object, more values or levels than any configuration has, and numbers
 * that JavaScript cannot represent.
 *
 * @param file - Its path as shown to people.
 */
export function readConfigText(text: string, format: ConfigFormat, file: string): ConfigText {
  const reader = new ConfigTextReader(text, format, file)
  try {
    return { node: reader.read(), problems: reader.problems }
  } catch (error) {
    if (error instanceof ReaderEnd) return { node: undefined, problems: reader.problems }
    throw error
  }
}

/** Thrown within a {@link ConfigTextReader} to stop; the problem is already in the list. */
class ReaderEnd extends Error {}

class ConfigTextReader {
  readonly problems: FileProblem[] = []
  readonly #text: string
  readonly #format: ConfigFormat
  readonly #file: string
  readonly #lines = new LineCounter()
  #values = 0

  constructor(text: string, format: ConfigFormat, file: string) {
    this.#text = text
    this.#format = format
    this.#file = file
  }

  /** @throws {@link ReaderEnd} */
  read(): ConfigNode | undefined {
    const isJson = this.#format === 'json'
    if (isJson) this.#refuseOtherThanJson()
    // In JSON, a lone carriage return may end a line; in YAML it does not, and JSON strings contain none.
    const text = isJson ? this.#text.replaceAll('\r', ' ') : this.#text
    const tokens = [...new Parser(this.#lines.addNewLine).parse(text)]
    // The library composes recursively, and V8 ends the process if the stack is exhausted inside a regular expression.
    const tooDeep = tokenAtDepth(tokens, isJson ? MAX_CONFIG_NESTING + 2 : 2 * MAX_CONFIG_NESTING + 3)
    if (tooDeep) this.#end(this.#place(tooDeep.offset), TOO_DEEP)

    // The library checks for duplicate keys in quadratic time; `#map` finds them too.
    const schema = isJson ? { schema: 'json' } : {}
    const composer = new Composer({ ...schema, uniqueKeys: false, keepSourceTokens: false })
    const [document, second] = [...composer.compose(tokens, true, text.length)]
    if (!document) return undefined
    // After a misplaced token the following ones are also wrong: only the first is reported.
    const lost = document.errors.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
    const errors = lost < 0 ? document.errors : document.errors.slice(0, lost + 1)
    const told = new Set<number>() // one mistake may have several consequences at one place
    for (const { pos, code, message } of [...errors, ...document.warnings]) {
      if (!told.has(pos[0]))
        this.#refuse(this.#place(pos[0]), messageOf(code, message) + hintFor(text, pos[0]))
      told.add(pos[0])
    }
    if (second)
      this.#refuse(
        this.#place(second.range[0]),
        'a second document begins here; a config file must have only one',
      )
    return this.problems.length > 0
      ? undefined
      : withoutExtensions(this.#value(document.contents, document, 0))
  }

  #refuseOtherThanJson(): void {
    const parsed = parseJson(this.#text, Number.POSITIVE_INFINITY) // `#value` has a limit of its own
    if ('mistake' in parsed) this.#end(parsed.mistake, `it is not JSON: ${parsed.mistake.reason}`)
  }

  #value(node: unknown, document: Document, depth: number): ConfigNode {
    const at = this.#placeOf(node)
    if (depth > MAX_CONFIG_NESTING) this.#end(at, TOO_DEEP)
    if (isAlias(node)) {
      const target = node.resolve(document)
      if (target) return this.#value(target, document, depth + 1)
      this.#refuse(at, `no earlier node has the anchor "&${node.source}"`)
    }
    if (++this.#values > MAX_VALUES)
      this.#end(at, `more than ${MAX_VALUES} values, aliases counted each time`)
    const origin = this.#origin(at)
    if (isMap(node)) return this.#map(node.items, document, depth, origin)
    if (!isSeq(node)) return this.#scalar(isScalar(node) ? node.value : null, at)
    return { kind: 'list', origin, items: node.items.map((item) => this.#value(item, document, depth + 1)) }
  }

  #map(pairs: readonly Pair[], document: Document, depth: number, origin: FilePosition): ConfigMap {
    const entries = new Map<string, ConfigEntry>()
    const merged: ConfigMap[] = []
    for (const { key, value } of pairs) {
      const at = this.#placeOf(key)
      const node = isAlias(key) ? key.resolve(document) : key
      if (!isScalar(node) || node.value === null) {
        this.#refuse(at, 'a key must be text')
        continue
      }
      const name = String(node.value)
      const configured = this.#value(value, document, depth + 1)
      if (name === '<<' && node.type === 'PLAIN') merged.push(...this.#merged(configured, at))
      else if (KEYS_OF_OBJECTS.has(name)) this.#refuse(at, `the key "${name}" is reserved`)
      else if (entries.has(name)) this.#refuse(at, `the key "${name}" is duplicate`)
      else entries.set(name, { origin: this.#origin(at), configured })
    }
    for (const map of merged)
      for (const [name, entry] of map.entries) if (!entries.has(name)) entries.set(name, entry)
    return { kind: 'map', origin, entries }
  }

  /** The maps of a merge key of YAML. */
  #merged(value: ConfigNode, at: Position): ConfigMap[] {
    const maps = value.kind === 'list' ? value.items : [value]
    const found = maps.filter((map) => map.kind === 'map')
    if (found.length < maps.length) this.#refuse(at, 'the value of << must be a map, or a list of maps')
    return found
  }

  #scalar(value: unknown, at: Position): ConfigScalar {
    const origin = this.#origin(at)
    const isHuge = typeof value === 'number' && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)
    if (isHuge) this.#refuse(at, 'this number is too large')
    else if (isPlain(value)) return { kind: 'scalar', origin, value }
    else this.#refuse(at, 'must be text, a number, true or false; put it in quotes to make it text')
    return { kind: 'scalar', origin, value: null }
  }

  #refuse(at: Position, message: string): void {
    this.problems.push({ place: this.#origin(at), message })
  }

  /** @throws {@link ReaderEnd} */
  #end(at: Position, message: string): never {
    this.#refuse(at, message)
    throw new ReaderEnd()
  }

  #placeOf(node: unknown): Position {
    return this.#place(isNode(node) ? (node.range?.[0] ?? 0) : 0)
  }

  #place(offset: number): Position {
    const { line, col } = this.#lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }

  #origin({ line, column }: Position): FilePosition {
    return { kind: 'file', file: this.#file, line, column }
  }
}

function withoutExtensions(node: ConfigNode): ConfigNode {
  if (node.kind !== 'map') return node
  return { ...node, entries: new Map([...node.entries].filter(([name]) => !name.startsWith('x-'))) }
}

const TOO_DEEP = `more than ${MAX_CONFIG_NESTING} levels inside each other`

const KEYS_OF_OBJECTS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

function isPlain(value: unknown): value is ConfigScalar['value'] {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

/** The first token at this depth. Each level of values takes one token in JSON, and at most two in YAML. */
function tokenAtDepth(tokens: readonly CST.Token[], depth: number): CST.Token | undefined {
  let level: readonly CST.Token[] = tokens
  for (let above = 0; above < depth && level.length > 0; above++) level = level.flatMap(insides)
  return level[0]
}

function insides(token: CST.Token): CST.Token[] {
  if (token.type === 'document') return token.value ? [token.value] : []
  if (!('items' in token)) return []
  return token.items.flatMap(({ key, value }) => [key, value].filter((inside) => inside != null))
}

/** The library's message in plain words, with what to do. */
function messageOf(code: string, message: string): string {
  if (message.startsWith('Flow ')) return 'a { or [ is opened before and not closed'
  return (
    PLAIN_MESSAGES.get(code) ?? `${message}${code === 'BAD_SCALAR_START' ? ': put the text in quotes' : ''}`
  )
}

const PLAIN_MESSAGES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    BAD_ALIAS: 'a text with * at its start needs quotes, such as "*"',
    BLOCK_AS_IMPLICIT_KEY: 'a text with a colon before a space or at its end needs quotes, such as "memory:"',
    MISSING_CHAR: 'a quote is opened before and not closed, or a colon is missing after a name',
    MULTILINE_IMPLICIT_KEY: 'a colon is missing after a name, as in port: 8080',
    TAB_AS_INDENT: 'lines are indented with spaces, not with tabs',
  }),
)

/** A hint about missing quotes: within a YAML map, the braces of a variable would begin a map. */
function hintFor(text: string, offset: number): string {
  const [line = ''] = text.slice(text.lastIndexOf('\n', offset - 1) + 1).split('\n', 1)
  const inside = line.slice(line.search(/[{[,]|$/) + 1)
  return /[^"']\$\{/.test(inside) ? ` (within { } or [ ], put quotes around "\${NAME}")` : ''
}

/** A text after the substitution of its variables. */
interface Interpolation {
  readonly text: string
  /** The substituted variables. If one of them is not empty, the text is a secret. */
  readonly variables: readonly string[]
  /** Reasons why it cannot be used; they contain no values. */
  readonly problems: readonly string[]
}

/**
 * Substitutes variables in a text: `${NAME}`, or `${NAME:-default}` whose default is used if the variable is unset or
 * empty. `$${` is the text `${`.
 */
export function interpolate(text: string, environment: Environment): Interpolation {
  const variables: string[] = []
  const problems: string[] = []
  const replaced = text.replaceAll(VARIABLE, (_found, escaped, name, fallback) => {
    if (escaped !== undefined) return '${'
    if (name === undefined) {
      problems.push(`a variable is \${NAME} or \${NAME:-default}; for the text "\${" write "$\${"`)
      return ''
    }
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined
    if (value !== undefined && (value !== '' || fallback === undefined)) {
      variables.push(name)
      return value
    }
    if (fallback === undefined) problems.push(`the environment variable ${name} is not set`)
    return fallback ?? ''
  })
  return { text: replaced, variables, problems }
}

/** The variables that a text names. */
export function variablesIn(text: string): readonly string[] {
  return [...text.matchAll(VARIABLE)].flatMap(([, , name]) => name ?? [])
}

/** Whether a text contains a variable or an escape. */
export function hasVariables(text: string): boolean {
  return text.includes('${')
}

/** `$${`; or `${` followed by a valid variable, or by anything else, which is an error. A default has no `${`. */
const VARIABLE = /(\$\$\{)|\$\{(?:([A-Za-z_]\w*)(?::-((?:[^}$]|\$+[^{}$])*\$*))?\})?/g
