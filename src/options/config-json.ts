import { parseJson } from '../platform/json-text.ts'
import type { FileTree, TextPlace } from './file-tree.ts'
import type { Given } from './given.ts'

/**
 * Reads JSON as values with their places.
 *
 * @returns undefined if it is not JSON; the tree has the problem.
 */
export function readJson(text: string, tree: FileTree): Given | undefined {
  const parsed = parseJson(text)
  if ('value' in parsed) return new Reader(text, tree).value(0)
  tree.refuse(parsed.mistake, `it is not JSON: ${parsed.mistake.reason}`)
  return undefined
}

interface Token extends TextPlace {
  readonly text: string
}

/** Reads text that is known to be JSON, so it has no mistakes to look for. */
class Reader {
  readonly #tokens: Iterator<Token>
  readonly #tree: FileTree
  #next: Token

  constructor(text: string, tree: FileTree) {
    this.#tokens = tokensOf(text)
    this.#tree = tree
    this.#next = this.#tokens.next().value
  }

  value(depth: number): Given {
    const start = this.#next
    this.#tree.checkDepth(depth, start)
    this.#skip()
    if (start.text === '{') return this.#map(start, depth)
    if (start.text === '[') return this.#list(start, depth)
    return this.#tree.scalar(JSON.parse(start.text), start)
  }

  #map(start: Token, depth: number): Given {
    const map = this.#tree.map(start)
    while (this.#next.text !== '}') {
      const key = this.#next
      this.#skip() // to the colon
      this.#skip()
      this.#tree.put(map, JSON.parse(key.text), key, this.value(depth + 1))
      if (this.#next.text === ',') this.#skip()
    }
    this.#skip()
    return map
  }

  #list(start: Token, depth: number): Given {
    const items: Given[] = []
    while (this.#next.text !== ']') {
      items.push(this.value(depth + 1))
      if (this.#next.text === ',') this.#skip()
    }
    this.#skip()
    return this.#tree.list(items, start)
  }

  #skip(): void {
    this.#next = this.#tokens.next().value ?? this.#next
  }
}

function* tokensOf(text: string): Generator<Token> {
  let line = 1
  let lineStart = 0
  for (const { 0: token, index } of text.matchAll(/\n|"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if (token === '\n') {
      line++
      lineStart = index + 1
    } else yield { text: token, line, column: index - lineStart + 1 }
  }
}
