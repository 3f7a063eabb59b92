import { type AST, ParseError, parseTOML } from 'toml-eslint-parser'
import type { FileTree, TextPlace } from './file-tree.ts'
import type { Given, GivenEntry, GivenMap } from './given.ts'

/**
 * Reads TOML 1.0 as values with their places. The parser is one whose syntax tree tells where each key is; those
 * that return plain data do not.
 *
 * @returns undefined if it is not TOML; the tree has the problem.
 */
export function readToml(text: string, tree: FileTree): Given | undefined {
  try {
    const [table] = parseTOML(text).body
    return new Reader(tree).root(table)
  } catch (error) {
    if (error instanceof ParseError) {
      tree.refuse({ line: error.lineNumber, column: error.column + 1 }, `it is not TOML: ${error.message}`)
      return undefined
    }
    // The parser has texts on the stack.
    if (error instanceof RangeError) tree.end({ line: 1, column: 1 }, 'a value is too long or too deep')
    throw error
  }
}

type OpenMap = GivenMap & { readonly entries: Map<string, GivenEntry> }

class Reader {
  readonly #tree: FileTree

  constructor(tree: FileTree) {
    this.#tree = tree
  }

  root(table: AST.TOMLTopLevelTable): Given {
    const root = this.#tree.map({ line: 1, column: 1 })
    for (const node of table.body) {
      if (node.type === 'TOMLKeyValue') this.#pair(root, node, 1)
      else this.#table(root, node)
    }
    return root
  }

  #table(root: OpenMap, { key, kind, body }: AST.TOMLTable): void {
    const keys = key.keys
    this.#tree.checkDepth(keys.length, placeOf(key))
    const inner = keys.reduce(
      (map, name, index) => this.#open(map, name, kind === 'array' && index === keys.length - 1),
      root,
    )
    for (const pair of body) this.#pair(inner, pair, keys.length + 1)
  }

  #pair(map: OpenMap, { key, value }: AST.TOMLKeyValue, depth: number): void {
    this.#tree.checkDepth(depth + key.keys.length, placeOf(key))
    const inner = key.keys.slice(0, -1).reduce((map, name) => this.#open(map, name, false), map)
    const last = key.keys.at(-1)
    if (last) this.#tree.put(inner, nameOf(last), placeOf(last), this.#value(value, depth + key.keys.length))
  }

  /** The map at a key of another one, or the last map of the list there; made if it is not there. */
  #open(map: OpenMap, key: AST.TOMLBare | AST.TOMLQuoted, asItem: boolean): OpenMap {
    const at = placeOf(key)
    const found = map.entries.get(nameOf(key))?.given
    if (found?.kind === 'map') return found as OpenMap
    const last = found?.kind === 'list' ? found.items.at(-1) : undefined
    if (!asItem && last?.kind === 'map') return last as OpenMap
    const made = this.#tree.map(at)
    if (found?.kind === 'list') (found.items as Given[]).push(made)
    else this.#tree.put(map, nameOf(key), at, asItem ? this.#tree.list([made], at) : made)
    return made
  }

  #value(node: AST.TOMLContentNode, depth: number): Given {
    const at = placeOf(node)
    this.#tree.checkDepth(depth, at)
    if (node.type === 'TOMLValue') return this.#tree.scalar(node.value, at)
    if (node.type === 'TOMLArray') {
      return this.#tree.list(
        node.elements.map((element) => this.#value(element, depth + 1)),
        at,
      )
    }
    const map = this.#tree.map(at)
    for (const pair of node.body) this.#pair(map, pair, depth)
    return map
  }
}

function nameOf(key: AST.TOMLBare | AST.TOMLQuoted): string {
  return key.type === 'TOMLBare' ? key.name : key.value
}

function placeOf({ loc }: { readonly loc: AST.SourceLocation }): TextPlace {
  return { line: loc.start.line, column: loc.start.column + 1 }
}
