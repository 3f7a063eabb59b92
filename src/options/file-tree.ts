import type { FilePlace, Given, GivenEntry, GivenMap, GivenScalar } from './given.ts'

/** A line and column of a text, from 1. */
export interface TextPlace {
  readonly line: number
  readonly column: number
}

/** One thing that is wrong with a config file. */
export interface FileProblem {
  readonly place: FilePlace
  readonly message: string
}

/** Deeper is no configuration: ours has four levels. Recursion stays short, and a YAML alias cannot contain itself. */
export const MAX_DEPTH = 32

/** Values that a file may hold, with those that YAML's aliases repeat. */
const MAX_VALUES = 20_000

/** Thrown by a {@link FileTree} when there is no use in going on; its problem is in the list. */
export class FileTreeEnd extends Error {}

/**
 * Makes the values of one config file, whatever its format, and notes what no format may have: a key that is there
 * twice, a key of every object, too many values, numbers that JavaScript cannot hold.
 */
export class FileTree {
  readonly problems: FileProblem[] = []
  readonly #file: string
  #values = 0

  constructor(file: string) {
    this.#file = file
  }

  /** @throws {@link FileTreeEnd} if there are too many values. */
  scalar(value: unknown, at: TextPlace): GivenScalar {
    this.#count(at)
    const origin = this.#place(at)
    if (typeof value === 'number' && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER))
      this.refuse(at, 'this number is too large')
    else if (value === null || ['string', 'number', 'boolean'].includes(typeof value))
      return { kind: 'scalar', origin, value: value as GivenScalar['value'] }
    else this.refuse(at, 'must be text, a number, true or false; put it in quotes to make it text')
    return { kind: 'scalar', origin, value: null }
  }

  /** @throws {@link FileTreeEnd} if there are too many values. */
  list(items: Given[], at: TextPlace): Given {
    this.#count(at)
    return { kind: 'list', origin: this.#place(at), items }
  }

  /** An empty map; {@link put} fills it. @throws {@link FileTreeEnd} if there are too many values. */
  map(at: TextPlace): GivenMap & { readonly entries: Map<string, GivenEntry> } {
    this.#count(at)
    return { kind: 'map', origin: this.#place(at), entries: new Map() }
  }

  /** Puts a value into a map, unless the key cannot be. */
  put(map: { readonly entries: Map<string, GivenEntry> }, key: string, at: TextPlace, given: Given): void {
    if (KEYS_OF_OBJECTS.has(key)) this.refuse(at, `the key "${key}" has a meaning of its own and is refused`)
    else if (map.entries.has(key)) this.refuse(at, `the key "${key}" is there twice`)
    else map.entries.set(key, { origin: this.#place(at), given })
  }

  refuse(at: TextPlace, message: string): void {
    this.problems.push({ place: this.#place(at), message })
  }

  /** @throws {@link FileTreeEnd} */
  end(at: TextPlace, message: string): never {
    this.refuse(at, message)
    throw new FileTreeEnd()
  }

  /** @throws {@link FileTreeEnd} if it is deeper than any configuration. */
  checkDepth(depth: number, at: TextPlace): void {
    if (depth > MAX_DEPTH) this.end(at, `more than ${MAX_DEPTH} levels inside each other`)
  }

  #count(at: TextPlace): void {
    if (++this.#values > MAX_VALUES) this.end(at, `more than ${MAX_VALUES} values, aliases counted each time`)
  }

  #place({ line, column }: TextPlace): FilePlace {
    return { kind: 'file', file: this.#file, line, column }
  }
}

const KEYS_OF_OBJECTS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])
