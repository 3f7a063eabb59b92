/** The length below which values would also match ordinary words. */
const MIN_LENGTH = 4

/**
 * The values of environment variables in the configuration. All output and log lines pass through here, which replaces the
 * values by the variables' names.
 */
export class Secrets {
  readonly #shown = new Map<string, string>()
  #pattern: RegExp | undefined

  /**
   * @param value - Values of fewer than 4 characters are not masked.
   * @param shown - Its replacement.
   */
  add(value: string, shown: string): void {
    if (value.length < MIN_LENGTH) return
    // Readable text has line breaks and control characters escaped; the log's text is JSON.
    for (const form of [value, JSON.stringify(value).slice(1, -1)]) this.#shown.set(form, shown)
    const longestFirst = [...this.#shown.keys()].sort((a, b) => b.length - a.length)
    this.#pattern = new RegExp(longestFirst.map(escapePattern).join('|'), 'g')
  }

  /** All values with their replacements, for another process of this server. */
  get all(): readonly (readonly [value: string, shown: string])[] {
    return [...this.#shown]
  }

  /** A text with each value replaced by `${NAME}`. */
  hide(text: string): string {
    return this.#pattern ? text.replaceAll(this.#pattern, (value) => this.#shown.get(value) ?? '') : text
  }

  /** A line of JSON with each value replaced by `${NAME}` within strings; keys and numbers stay. */
  hideInJson(line: string): string {
    return this.#pattern
      ? line.replaceAll(SECRET_TEXTS, (text) => (text.endsWith(':') ? text : this.hide(text)))
      : line
  }
}

/** Strings of compact JSON; with a colon if they are keys. */
const SECRET_TEXTS = /"(?:[^"\\]|\\.)*":?/g

function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}
