import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
} from 'yaml'
import { type FileTree, MAX_DEPTH, type TextPlace } from './file-tree.ts'
import type { Given } from './given.ts'

/**
 * Reads YAML 1.2 (its core schema) as values with their places.
 *
 * @returns undefined if it is not YAML; the tree has all the problems.
 */
export function readYaml(text: string, tree: FileTree): Given | undefined {
  const lines = new LineCounter()
  const place = (offset: number): TextPlace => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  // The library composes with recursion, and when the stack ends inside a regular expression V8 ends the process.
  if (isDeep(tokens)) tree.end(place(0), `more than ${MAX_DEPTH} levels inside each other`)

  // Its search for equal keys takes time to the square of their number; the tree finds them too.
  const documents = [
    ...new Composer({ uniqueKeys: false, keepSourceTokens: false }).compose(tokens, true, text.length),
  ]
  const [document, second] = documents
  if (!document) return undefined
  // Once a token is where it cannot be, those behind it are, too: the first says where to look.
  const lost = document.errors.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
  const errors = lost < 0 ? document.errors : document.errors.slice(0, lost + 1)
  for (const { pos, message } of [...errors, ...document.warnings])
    tree.refuse(place(pos[0]), message + hintFor(text, pos[0]))
  if (second) tree.refuse(place(second.range[0]), 'a second document begins here; a config file is one')
  if (tree.problems.length > 0) return undefined
  return new Reader(document, tree, place).value(document.contents, 0)
}

/** The braces of a variable are those of a map, where YAML is inside of one. */
function hintFor(text: string, offset: number): string {
  const [line = ''] = text.slice(text.lastIndexOf('\n', offset - 1) + 1).split('\n', 1)
  return /[{[,].*[^"']\$\{/.test(line) ? ` (within { } or [ ], put quotes around "\${NAME}")` : ''
}

/** Whether tokens are deeper inside each other than values may be: each level of values takes at most two of theirs. */
function isDeep(tokens: readonly CST.Token[]): boolean {
  let level: readonly CST.Token[] = tokens
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > 2 * MAX_DEPTH + 2) return true
    level = level.flatMap(insides)
  }
  return false
}

function insides(token: CST.Token): CST.Token[] {
  if (token.type === 'document') return token.value ? [token.value] : []
  if (!('items' in token)) return []
  return token.items.flatMap(({ key, value }) => [key, value].filter((inside) => inside != null))
}

class Reader {
  readonly #document: Document.Parsed
  readonly #tree: FileTree
  readonly #place: (offset: number) => TextPlace

  constructor(document: Document.Parsed, tree: FileTree, place: (offset: number) => TextPlace) {
    this.#document = document
    this.#tree = tree
    this.#place = place
  }

  value(node: Node | null, depth: number): Given {
    const at = this.#placeOf(node)
    this.#tree.checkDepth(depth, at)
    if (isAlias(node)) {
      const target = node.resolve(this.#document)
      if (target) return this.value(target, depth + 1)
      this.#tree.refuse(at, `nothing before this is named "&${node.source}"`)
    }
    if (isMap(node)) return this.#map(node.items as readonly Pair[], at, depth)
    if (isSeq(node)) {
      return this.#tree.list(
        node.items.map((item) => this.value(item as Node, depth + 1)),
        at,
      )
    }
    return this.#tree.scalar(isScalar(node) ? node.value : null, at)
  }

  #map(pairs: readonly Pair[], at: TextPlace, depth: number): Given {
    const map = this.#tree.map(at)
    for (const { key, value } of pairs) {
      const keyPlace = this.#placeOf(key)
      const name = isAlias(key) ? key.resolve(this.#document) : key
      if (isScalar(name) && name.value !== null)
        this.#tree.put(map, String(name.value), keyPlace, this.value(value, depth + 1))
      else this.#tree.refuse(keyPlace, 'a key must be text')
    }
    return map
  }

  #placeOf(node: Node | null): TextPlace {
    return this.#place(node?.range?.[0] ?? 0)
  }
}

interface Pair {
  readonly key: Node | null
  readonly value: Node | null
}
