/** Where a text stops being JSON. */
export interface JsonMistake {
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
  readonly reason: string
}

/**
 * Maximum nesting. V8 keeps 150 bytes or more for each level: a text of 4 MiB could have 4 million. Nothing that is read here needs
 * more than ten.
 */
const MAX_DEPTH = 256

/**
 * Parses JSON. A syntax error is returned as data with its position, which some of V8's messages lack. So is too deep a nesting.
 *
 * @param maxDepth - Of lists and objects.
 */
export function parseJson(
  text: string,
  maxDepth: number = MAX_DEPTH,
): { readonly value: unknown } | { readonly mistake: JsonMistake } {
  const { deepAt } = measure(text, maxDepth)
  if (deepAt !== undefined)
    return { mistake: mistakeAt(text, deepAt, `it is nested more than ${maxDepth} levels deep`) }
  try {
    return { value: JSON.parse(text) }
  } catch {
    const at = new JsonTextScanner(text).findMistake()
    const found = String.fromCodePoint(text.codePointAt(at) ?? 0)
    const reason =
      at >= text.length ? 'the text ends too early' : `unexpected ${JSON.stringify(found)}${hintAt(text, at)}`
    return { mistake: mistakeAt(text, at, reason) }
  }
}

/** What to do about what JavaScript and YAML have and JSON has not. */
function hintAt(text: string, at: number): string {
  const char = text.charAt(at)
  const before = text.slice(0, at).trimEnd().at(-1)
  if (char === '/' || char === '#') return ': JSON has no comments'
  if (before === ',' && (char === '}' || char === ']')) return ': remove the comma before it'
  if (char === "'") return ': texts are in double quotes'
  const isName = /[A-Za-z_$]/.test(char) && (before === '{' || before === ',')
  return isName ? ': names are in double quotes' : ''
}

/** An object of JSON, whose values have not been checked. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value is an object, not a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Parses a JSON object. @returns undefined if the bytes are something else. */
export function parseObject(bytes: Uint8Array | undefined): JsonObject | undefined {
  const parsed = parseJson(Buffer.from(bytes ?? []).toString())
  return 'value' in parsed && isObject(parsed.value) ? parsed.value : undefined
}

/** Parses the JSON object at the start of a text; what follows it is not read. @returns undefined if there is none. */
export function parseFirstObject(text: string): JsonObject | undefined {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === '"') at = endOfString(text, at)
    if (char === '{') depth++
    if (char === '}' && --depth === 0) return parseObject(Buffer.from(text.slice(0, at + 1)))
  }
  return undefined
}

/** Parses JSON and refuses duplicate keys: parsers disagree about which of the values counts. */
export function parseStrictJson(text: string): ReturnType<typeof parseJson> {
  const parsed = parseJson(text)
  if ('mistake' in parsed || !hasKeyTwice(parsed.value, text)) return parsed
  return { mistake: mistakeAt(text, 0, 'a key is given twice') }
}

/** Whether an object has a key twice. @param value - Of the text. */
export function hasKeyTwice(value: unknown, text: string): boolean {
  return membersOf(value) !== measure(text, MAX_DEPTH).members
}

/** The offset at which a text is too deep, and its number of members of objects, if it is JSON. */
function measure(
  text: string,
  maxDepth: number,
): { readonly deepAt: number | undefined; readonly members: number } {
  let depth = 0
  let members = 0
  for (let at = 0; at < text.length; at++) {
    switch (text.charAt(at)) {
      case '"':
        at = endOfString(text, at)
        break
      case ':':
        members++
        break
      case '[':
      case '{':
        if (++depth > maxDepth) return { deepAt: at, members }
        break
      case ']':
      case '}':
        depth--
    }
  }
  return { deepAt: undefined, members }
}

/** The offset of the quote that ends a string; the length if there is none. @param start - Of its first quote. */
export function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let first = end
    while (text.charAt(first - 1) === '\\') first--
    if ((end - first) % 2 === 0) return end
  }
  return text.length
}

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const values = Object.values(value)
  return values.reduce((sum: number, each) => sum + membersOf(each), Array.isArray(value) ? 0 : values.length)
}

function mistakeAt(text: string, at: number, reason: string): JsonMistake {
  const lineStart = at === 0 ? 0 : text.lastIndexOf('\n', at - 1) + 1
  let line = 1
  for (let next = text.indexOf('\n'); next >= 0 && next < at; next = text.indexOf('\n', next + 1)) line++
  return { line, column: at - lineStart + 1, reason }
}

type ExpectedToken = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | ', or end'

const LITERALS = ['true', 'false', 'null']

/** Walks over JSON (RFC 8259) without building values and without recursion, so that depth costs no stack. */
class JsonTextScanner {
  readonly #text: string
  readonly #open: ('{' | '[')[] = []
  #at = 0
  #expected: ExpectedToken = 'value'

  constructor(text: string) {
    this.#text = text
  }

  /** The offset of the first character that JSON cannot have there; the length if something is missing at the end. */
  findMistake(): number {
    do this.#skip(' \t\r\n')
    while (this.#at < this.#text.length && this.#token())
    return this.#at
  }

  #token(): boolean {
    const char = this.#text.charAt(this.#at)
    switch (this.#expected) {
      case ':':
        return this.#take(':', 'value')
      case ', or end':
        return this.#afterValue(char)
      case 'key or }':
        return char === '}' ? this.#close('{') : this.#key()
      case 'key':
        return this.#key()
      case 'value or ]':
        return char === ']' ? this.#close('[') : this.#value(char)
      case 'value':
        return this.#value(char)
    }
  }

  #take(char: string, then: ExpectedToken): boolean {
    if (this.#text.charAt(this.#at) !== char) return false
    this.#at++
    this.#expected = then
    return true
  }

  #afterValue(char: string): boolean {
    const innermost = this.#open.at(-1)
    if (char === ',' && innermost) return this.#take(',', innermost === '{' ? 'key' : 'value')
    if (char === '}') return this.#close('{')
    return char === ']' && this.#close('[')
  }

  #close(opened: '{' | '['): boolean {
    if (this.#open.at(-1) !== opened) return false
    this.#open.pop()
    this.#at++
    this.#expected = ', or end'
    return true
  }

  #key(): boolean {
    if (!this.#string()) return false
    this.#expected = ':'
    return true
  }

  #value(char: string): boolean {
    if (char === '{' || char === '[') {
      this.#open.push(char)
      return this.#take(char, char === '{' ? 'key or }' : 'value or ]')
    }
    this.#expected = ', or end'
    if (char === '"') return this.#string()
    const word = LITERALS.find((word) => word.startsWith(char))
    return word === undefined ? this.#number() : this.#word(word)
  }

  #word(word: string): boolean {
    return [...word].every((char) => this.#text.charAt(this.#at) === char && ++this.#at)
  }

  #string(): boolean {
    if (this.#text.charAt(this.#at) !== '"') return false
    this.#at++
    while (this.#at < this.#text.length) {
      const char = this.#text.charAt(this.#at)
      if (char < ' ') return false
      if (char === '\\') {
        this.#at++
        if (!this.#escape()) return false
      } else {
        this.#at++
        if (char === '"') return true
      }
    }
    return false
  }

  #escape(): boolean {
    const char = this.#text.charAt(this.#at)
    if (char === '' || !'"\\/bfnrtu'.includes(char)) return false
    this.#at++
    return char !== 'u' || this.#skip('0123456789abcdefABCDEF', 4) === 4
  }

  #number(): boolean {
    this.#skip('-', 1)
    if (this.#skip('0', 1) === 0 && this.#digits() === 0) return false
    if (this.#skip('.', 1) === 1 && this.#digits() === 0) return false
    if (this.#skip('eE', 1) === 0) return true
    this.#skip('+-', 1)
    return this.#digits() > 0
  }

  #digits(): number {
    return this.#skip('0123456789')
  }

  /** Moves over characters of a set; returns their number. */
  #skip(set: string, most = Number.POSITIVE_INFINITY): number {
    const start = this.#at
    while (this.#at < this.#text.length && this.#at - start < most) {
      if (!set.includes(this.#text.charAt(this.#at))) break
      this.#at++
    }
    return this.#at - start
  }
}
