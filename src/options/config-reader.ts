import type { ConfigEntry, ConfigNode, ConfigScalar, FilePosition } from './config-node.ts'

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

/**
 * Maximum nesting: a valid configuration has four levels. It bounds the recursion, and a YAML alias cannot contain
 * itself.
 */
export const MAX_CONFIG_NESTING = 32

/** Maximum number of values in a file, including those repeated by YAML aliases. */
const MAX_VALUES = 20_000

const TOO_DEEP = `more than ${MAX_CONFIG_NESTING} levels inside each other`

/** Thrown to stop reading; the problem is already in the list. */
class ReaderEnd extends Error {}

/** Builds the values of a config file with their positions. Has the checks that JSON and YAML share. Offsets are in UTF-16 units. */
export class ConfigReader {
  readonly problems: FileProblem[] = []
  readonly #file: string
  /** Offsets at which lines begin, ascending. */
  readonly #lines: readonly number[]
  #values = 0

  constructor(text: string, file: string) {
    this.#file = file
    this.#lines = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  }

  /** Ends with the problems if {@link end} is called. */
  run(read: () => ConfigNode | undefined): ConfigText {
    try {
      const node = read()
      return { node: node && withoutExtensions(node), problems: this.problems }
    } catch (error) {
      if (error instanceof ReaderEnd) return { node: undefined, problems: this.problems }
      throw error
    }
  }

  /** Counts a value. @param depth - The number of maps and lists around it. */
  count(offset: number, depth: number): void {
    if (depth > MAX_CONFIG_NESTING) this.endTooDeep(offset)
    if (++this.#values > MAX_VALUES)
      this.end(offset, `more than ${MAX_VALUES} values, aliases counted each time`)
  }

  endTooDeep(offset: number): never {
    this.end(offset, TOO_DEEP)
  }

  /** @param offset - Of the key. */
  addEntry(entries: Map<string, ConfigEntry>, name: string, offset: number, configured: ConfigNode): void {
    if (KEYS_OF_OBJECTS.has(name)) this.refuse(offset, `the key "${name}" is reserved`)
    else if (entries.has(name)) this.refuse(offset, `the key "${name}" is duplicate`)
    else entries.set(name, { origin: this.origin(offset), configured })
  }

  scalar(value: unknown, offset: number): ConfigScalar {
    const origin = this.origin(offset)
    const isHuge = typeof value === 'number' && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)
    if (isHuge) this.refuse(offset, 'this number is too large')
    else if (isPlain(value)) return { kind: 'scalar', origin, value }
    else this.refuse(offset, 'must be text, a number, true or false; put it in quotes to make it text')
    return { kind: 'scalar', origin, value: null }
  }

  refuse(offset: number, message: string): void {
    this.problems.push({ place: this.origin(offset), message })
  }

  end(offset: number, message: string): never {
    this.refuse(offset, message)
    throw new ReaderEnd()
  }

  origin(offset: number): FilePosition {
    let [line, end] = [1, this.#lines.length]
    while (line < end) {
      const middle = Math.ceil((line + end) / 2)
      if ((this.#lines[middle - 1] ?? 0) <= offset) line = middle
      else end = middle - 1
    }
    return { kind: 'file', file: this.#file, line, column: offset - (this.#lines[line - 1] ?? 0) + 1 }
  }
}

function withoutExtensions(node: ConfigNode): ConfigNode {
  if (node.kind !== 'map') return node
  return { ...node, entries: new Map([...node.entries].filter(([name]) => !name.startsWith('x-'))) }
}

const KEYS_OF_OBJECTS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

function isPlain(value: unknown): value is ConfigScalar['value'] {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}
