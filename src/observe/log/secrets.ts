/** Shorter values would also match ordinary words. */
const MIN_LENGTH = 4

/**
 * The values of environment variables that the configuration contains. All output and log lines pass through here, which
 * puts the variables' names in place of their values.
 */
export class Secrets {
  readonly #shown = new Map<string, string>()
  #pattern: RegExp | undefined

  /**
   * @param value - Not one of fewer than 4 characters: it stays readable.
   * @param shown - The text in its place.
   */
  add(value: string, shown: string): void {
    if (value.length < MIN_LENGTH) return
    // A text for people has its lines and control characters escaped, one of the log is JSON.
    for (const form of [value, JSON.stringify(value).slice(1, -1)]) this.#shown.set(form, shown)
    const longestFirst = [...this.#shown.keys()].sort((a, b) => b.length - a.length)
    this.#pattern = new RegExp(longestFirst.map(escapePattern).join('|'), 'g')
  }

  /** A text with `${NAME}` in the place of each value. */
  hide(text: string): string {
    return this.#pattern ? text.replaceAll(this.#pattern, (value) => this.#shown.get(value) ?? '') : text
  }

  /** A line of JSON with `${NAME}` in the place of each value, within its texts; keys and numbers stay. */
  hideInJson(line: string): string {
    return this.#pattern
      ? line.replaceAll(SECRET_TEXTS, (text) => (text.endsWith(':') ? text : this.hide(text)))
      : line
  }
}

/** Texts of compact JSON; with a colon if they are keys. */
const SECRET_TEXTS = /"(?:[^"\\]|\\.)*":?/g

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
