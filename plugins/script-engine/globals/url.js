import { bytesOf } from './bytes.js'

const PARTS = ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash']

export class URL {
  #parts
  #search
  constructor(url, base) {
    this.#parts = URL.#parse(url, base)
    if (!this.#parts) throw new TypeError(`Invalid URL: ${url}`)
    this.#search = new URLSearchParams(this.#parts.search)
    updates.set(this.#search, () => this.#change('search', String(this.#search)))
  }
  static #parse(url, base) {
    const text = String(url).toWellFormed()
    return base === undefined ? host.parseUrl(text) : host.parseUrl(text, String(base).toWellFormed())
  }
  static canParse(url, base) {
    return Boolean(URL.#parse(url, base))
  }
  static parse(url, base) {
    return URL.canParse(url, base) ? new URL(url, base) : null
  }
  #change(part, value) {
    const parts = host.changeUrl(this.#parts.href, part, String(value).toWellFormed())
    if (!parts) throw new TypeError(`Invalid URL: ${value}`)
    this.#parts = parts
  }
  get href() {
    return this.#parts.href
  }
  set href(value) {
    this.#change('href', value)
    refill(this.#search, this.#parts.search)
  }
  get origin() {
    return this.#parts.origin
  }
  get searchParams() {
    return this.#search
  }
  toString() {
    return this.href
  }
  toJSON() {
    return this.href
  }
  static {
    for (const part of PARTS)
      Object.defineProperty(URL.prototype, part, {
        get() {
          return this.#parts[part]
        },
        set(value) {
          this.#change(part, value)
          if (part === 'search') refill(this.#search, this.#parts.search)
        },
        configurable: true,
        enumerable: true,
      })
  }
}

/** What a list of parameters does after a change, by the list. */
const updates = new WeakMap()
let refill

export class URLSearchParams {
  #pairs = []
  constructor(from = '') {
    if (typeof from === 'object' && from !== null) {
      const pairs = Symbol.iterator in from ? [...from] : Object.entries(from)
      for (const pair of pairs) {
        if ([...pair].length !== 2) throw new TypeError('each parameter must be a pair')
        this.#pairs.push([...pair].map((text) => String(text).toWellFormed()))
      }
    } else this.#pairs = pairsOf(String(from))
  }
  static {
    refill = (list, text) => {
      list.#pairs = pairsOf(text)
    }
  }
  #changed() {
    updates.get(this)?.()
  }
  get size() {
    return this.#pairs.length
  }
  append(name, value) {
    this.#pairs.push([String(name), String(value)])
    this.#changed()
  }
  delete(name, value) {
    this.#pairs = this.#pairs.filter(
      ([key, item]) => key !== String(name) || (value !== undefined && item !== String(value)),
    )
    this.#changed()
  }
  get(name) {
    return this.#pairs.find(([key]) => key === String(name))?.[1] ?? null
  }
  getAll(name) {
    return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value)
  }
  has(name, value) {
    return this.#pairs.some(
      ([key, item]) => key === String(name) && (value === undefined || item === String(value)),
    )
  }
  set(name, value) {
    const at = this.#pairs.findIndex(([key]) => key === String(name))
    if (at < 0) this.#pairs.push([String(name), String(value)])
    else {
      this.#pairs[at][1] = String(value)
      this.#pairs = this.#pairs.filter(([key], index) => index <= at || key !== String(name))
    }
    this.#changed()
  }
  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    this.#changed()
  }
  forEach(each, self) {
    for (const [name, value] of this) each.call(self, value, name, this)
  }
  *entries() {
    for (const [name, value] of this.#pairs) yield [name, value]
  }
  *keys() {
    for (const [name] of this.#pairs) yield name
  }
  *values() {
    for (const [, value] of this.#pairs) yield value
  }
  [Symbol.iterator]() {
    return this.entries()
  }
  toString() {
    return this.#pairs.map((pair) => pair.map(encodedForm).join('=')).join('&')
  }
}

function pairsOf(text) {
  const parts = text
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part !== '')
  return parts.map((part) => {
    const at = part.indexOf('=')
    const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)]
    return [decodedForm(name), decodedForm(value)]
  })
}

function encodedForm(text) {
  let encoded = ''
  for (const byte of bytesOf(text)) {
    const character = String.fromCharCode(byte)
    if (/[\w*.-]/.test(character)) encoded += character
    else encoded += byte === 32 ? '+' : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return encoded
}

function decodedForm(text) {
  const spaced = text.replaceAll('+', ' ')
  if (!spaced.includes('%')) return spaced
  const bytes = []
  const given = bytesOf(spaced)
  for (let at = 0; at < given.length; at++) {
    const hex = given[at] === 37 ? String.fromCharCode(given[at + 1], given[at + 2]) : ''
    const isEncoded = /^[\da-f]{2}$/i.test(hex)
    bytes.push(isEncoded ? Number.parseInt(hex, 16) : given[at])
    if (isEncoded) at += 2
  }
  return host.decode(Uint8Array.from(bytes), false)
}
