import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Pair,
  Parser,
} from 'yaml'
import type { ConfigEntry, ConfigMap, ConfigNode } from './config-node.ts'
import { ConfigReader, type ConfigText, MAX_CONFIG_NESTING } from './config-reader.ts'

/** Reads a config file in YAML 1.2 (its core schema). The key `<<` merges maps. @param file - Its path as shown to people. */
export function readYamlText(text: string, file: string): ConfigText {
  const reader = new ConfigReader(text, file)
  return reader.run(() => {
    const tokens = [...new Parser().parse(text)]
    // The library composes recursively, and V8 ends the process if the stack is exhausted inside a regular expression.
    const tooDeep = tokenAtDepth(tokens, 2 * MAX_CONFIG_NESTING + 3)
    if (tooDeep) reader.endTooDeep(tooDeep.offset)

    // The library checks for duplicate keys in quadratic time; the reader finds them too.
    const composer = new Composer({ uniqueKeys: false, keepSourceTokens: false })
    const [document, second] = [...composer.compose(tokens, true, text.length)]
    if (!document) return undefined
    // After a misplaced token the following ones are also wrong: only the first is reported.
    const lost = document.errors.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
    const errors = lost < 0 ? document.errors : document.errors.slice(0, lost + 1)
    const reported = new Set<number>() // the parser may report the same error more than once
    for (const { pos, code, message } of [...errors, ...document.warnings]) {
      if (!reported.has(pos[0])) reader.refuse(pos[0], messageOf(code, message) + hintFor(text, pos[0]))
      reported.add(pos[0])
    }
    if (second)
      reader.refuse(second.range[0], 'a second document begins here; a config file must have only one')
    return reader.problems.length > 0
      ? undefined
      : new YamlNodes(document, reader).value(document.contents, 0)
  })
}

class YamlNodes {
  readonly #document: Document
  readonly #reader: ConfigReader

  constructor(document: Document, reader: ConfigReader) {
    this.#document = document
    this.#reader = reader
  }

  value(node: unknown, depth: number): ConfigNode {
    const at = offsetOf(node)
    if (isAlias(node)) {
      const target = depth > MAX_CONFIG_NESTING ? this.#reader.endTooDeep(at) : node.resolve(this.#document)
      if (target) return this.value(target, depth + 1)
      this.#reader.refuse(at, `no earlier node has the anchor "&${node.source}"`)
    }
    this.#reader.count(at, depth)
    if (isMap(node)) return this.#map(node.items, depth, at)
    if (!isSeq(node)) return this.#reader.scalar(isScalar(node) ? node.value : null, at)
    const origin = this.#reader.origin(at)
    return { kind: 'list', origin, items: node.items.map((item) => this.value(item, depth + 1)) }
  }

  #map(pairs: readonly Pair[], depth: number, at: number): ConfigMap {
    const entries = new Map<string, ConfigEntry>()
    const merged: ConfigMap[] = []
    for (const { key, value } of pairs) {
      const keyAt = offsetOf(key)
      const node = isAlias(key) ? key.resolve(this.#document) : key
      if (!isScalar(node) || node.value === null) {
        this.#reader.refuse(keyAt, 'a key must be text')
        continue
      }
      const name = String(node.value)
      const configured = this.value(value, depth + 1)
      if (name === '<<' && node.type === 'PLAIN') merged.push(...this.#merged(configured, keyAt))
      else this.#reader.addEntry(entries, name, keyAt, configured)
    }
    for (const map of merged)
      for (const [name, entry] of map.entries) if (!entries.has(name)) entries.set(name, entry)
    return { kind: 'map', origin: this.#reader.origin(at), entries }
  }

  /** The maps of a merge key. */
  #merged(value: ConfigNode, at: number): ConfigMap[] {
    const maps = value.kind === 'list' ? value.items : [value]
    const found = maps.filter((map) => map.kind === 'map')
    if (found.length < maps.length)
      this.#reader.refuse(at, 'the value of << must be a map, or a list of maps')
    return found
  }
}

function offsetOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0
}

/** The first token at this depth. Each level of values takes two tokens at most. */
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
