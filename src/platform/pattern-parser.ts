/** A part of a pattern. */
export type Part =
  | { readonly kind: 'one'; readonly source: string }
  | { readonly kind: 'assert'; readonly source: string }
  | { readonly kind: 'look'; readonly part: Part; readonly isNegative: boolean }
  | { readonly kind: 'all' | 'any'; readonly parts: readonly Part[] }
  | { readonly kind: 'repeat'; readonly part: Part; readonly min: number; readonly max: number }

/** Nested groups. */
const MAX_DEPTH = 100

/**
 * Finds the parts of a regular expression.
 *
 * @throws SyntaxError if it is wrong for the flag `u`, is nested too deeply, or has lookbehinds, back-references or modifiers.
 */
export function parsePattern(source: string): Part {
  new RegExp(source, 'u') // throws if it is wrong: the parser relies on it
  return new Parser(source).parse()
}

class Parser {
  readonly #source: string
  #at = 0
  #depth = 0

  constructor(source: string) {
    this.#source = source
  }

  parse(): Part {
    return this.#alternatives()
  }

  #alternatives(): Part {
    if (++this.#depth > MAX_DEPTH) throw unfit(this.#source, `groups in more than ${MAX_DEPTH} others`)
    const parts = [this.#sequence()]
    while (this.#take(/\|/y) !== undefined) parts.push(this.#sequence())
    this.#depth--
    return { kind: 'any', parts }
  }

  #sequence(): Part {
    const parts: Part[] = []
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source.charAt(this.#at)))
      parts.push(this.#repeated(this.#atom()))
    return { kind: 'all', parts }
  }

  #atom(): Part {
    if (this.#take(/\((?:\?:|\?<(?![=!])[^>]*>)?(?!\?)/y) !== undefined) {
      const inner = this.#alternatives()
      this.#take(/\)/y)
      return inner
    }
    const look = this.#take(/\(\?[=!]/y)
    if (look !== undefined) {
      const part = this.#alternatives()
      this.#take(/\)/y)
      return { kind: 'look', part, isNegative: look.endsWith('!') }
    }
    const assertion = this.#take(/[\^$]|\\[bB]/y)
    if (assertion !== undefined) return { kind: 'assert', source: assertion }
    const source = this.#take(ONE)
    if (source !== undefined) return { kind: 'one', source }
    throw unfit(this.#source, 'a lookbehind, a back-reference or a modifier')
  }

  #repeated(part: Part): Part {
    const quantifier = this.#take(/(?:[*+?]|\{\d+(?:,\d*)?\})\??/y)
    if (quantifier === undefined) return part
    const [, least, comma = '', most = ''] = /^\{(\d+)(?:(,)(\d*))?\}/.exec(quantifier) ?? []
    if (least === undefined)
      return {
        ...{ kind: 'repeat', part, min: quantifier.startsWith('+') ? 1 : 0 },
        max: quantifier.startsWith('?') ? 1 : Number.POSITIVE_INFINITY,
      }
    const min = Number(least)
    const max = comma === '' ? min : most === '' ? Number.POSITIVE_INFINITY : Number(most)
    return { kind: 'repeat', part, min, max }
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const [text] = pattern.exec(this.#source) ?? []
    if (text !== undefined) this.#at += text.length
    return text
  }
}

/** What matches one character. A pair of escaped surrogates is one. */
const ONE =
  /\[(?:[^\]\\]|\\.)*\]|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u\{[^}]*\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c[a-zA-Z]|\\[pP]\{[^}]*\}|\\[^1-9k]|[^\\()]/suy

function unfit(source: string, what: string): SyntaxError {
  return new SyntaxError(`the pattern ${JSON.stringify(source.slice(0, 64))} has ${what}`)
}
