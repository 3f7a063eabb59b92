import { endOfString, parseJson } from '../platform/json-text.ts'
import type { ConfigEntry, ConfigNode } from './config-node.ts'
import { ConfigReader, type ConfigText } from './config-reader.ts'

/** Reads a config file in JSON (RFC 8259). @param file - Its path as shown to people. */
export function readJsonText(text: string, file: string): ConfigText {
  const reader = new ConfigReader(text, file)
  return reader.run(() => {
    const parsed = parseJson(text, Number.POSITIVE_INFINITY) // the reader limits the nesting
    if ('mistake' in parsed) {
      const { line, column, reason } = parsed.mistake
      const message = `it is not JSON: ${reason}`
      reader.problems.push({ place: { kind: 'file', file, line, column }, message })
      return undefined
    }
    return new JsonNodes(text, reader).value(0)
  })
}

/** Reads a text that `JSON.parse` has accepted once more, for positions and duplicate keys. */
class JsonNodes {
  readonly #text: string
  readonly #reader: ConfigReader
  #at = 0

  constructor(text: string, reader: ConfigReader) {
    this.#text = text
    this.#reader = reader
  }

  value(depth: number): ConfigNode {
    const char = this.#next()
    const at = this.#at
    this.#reader.count(at, depth)
    if (char === '{') return this.#map(depth)
    return char === '[' ? this.#list(depth) : this.#reader.scalar(this.#scalar(), at)
  }

  #map(depth: number): ConfigNode {
    const origin = this.#reader.origin(this.#at)
    const entries = new Map<string, ConfigEntry>()
    for (let char = this.#after(); char !== '}'; char = this.#next()) {
      if (char === ',') this.#after()
      const at = this.#at
      const name = String(this.#scalar())
      this.#next()
      this.#at++ // the colon
      this.#reader.addEntry(entries, name, at, this.value(depth + 1))
    }
    this.#at++
    return { kind: 'map', origin, entries }
  }

  #list(depth: number): ConfigNode {
    const origin = this.#reader.origin(this.#at)
    const items: ConfigNode[] = []
    for (let char = this.#after(); char !== ']'; char = this.#next()) {
      if (char === ',') this.#at++
      items.push(this.value(depth + 1))
    }
    this.#at++
    return { kind: 'list', origin, items }
  }

  #scalar(): unknown {
    const start = this.#at
    if (this.#text.charAt(start) === '"') this.#at = endOfString(this.#text, start) + 1
    else while (!/[\s,\]}]|^$/.test(this.#text.charAt(this.#at))) this.#at++
    return JSON.parse(this.#text.slice(start, this.#at))
  }

  /** Moves to the next character that is no white space. @returns it. */
  #next(): string {
    while (/\s/.test(this.#text.charAt(this.#at))) this.#at++
    return this.#text.charAt(this.#at)
  }

  /** Moves over this character, and to the next one that is no white space. */
  #after(): string {
    this.#at++
    return this.#next()
  }
}
