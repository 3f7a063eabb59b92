/** Longer names and texts do not occur in declarations. */
const MAX_TOKEN = 1_024

/** Reads TypeScript from a place on: names, numbers, texts in quotes, and single characters; not what is between spaces and comments. */
export class TokenReader {
  readonly #text: string
  #at: number
  /** The last comment before the next token. */
  comment = ''

  constructor(text: string, at: number) {
    this.#text = text
    this.#at = at
  }

  /** The place of the next token. */
  get at(): number {
    this.#skipSpace()
    return this.#at
  }

  /** The next token, which stays; empty at the end. */
  peek(): string {
    const rest = this.#text.slice(this.at, this.#at + MAX_TOKEN)
    return /^(?:[\w$]+(?:\.\d+)?|'[^'\n]*'|"[^"\n]*"|`[^`]*`|.)/su.exec(rest)?.[0] ?? ''
  }

  next(): string {
    const token = this.peek()
    this.#at += token.length
    return token
  }

  /** @returns whether the next token is this one, which is consumed then. */
  skip(wanted: string): boolean {
    if (this.peek() !== wanted) return false
    this.next()
    return true
  }

  #skipSpace(): void {
    for (;;) {
      while (/\s/.test(this.#text.charAt(this.#at))) this.#at++
      const isLine = this.#text.startsWith('//', this.#at)
      if (!isLine && !this.#text.startsWith('/*', this.#at)) return
      const found = this.#text.indexOf(isLine ? '\n' : '*/', this.#at)
      const end = found < 0 ? this.#text.length : found + (isLine ? 1 : 2)
      if (!isLine) this.comment = this.#text.slice(this.#at, end)
      this.#at = end
    }
  }
}
