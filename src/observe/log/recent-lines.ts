/** Lines that are kept, and characters of all of them. */
const MOST_LINES = 1_000
const MOST_CHARACTERS = 1_000_000

/** The last lines of the log, as they were written, for who looks later; older ones are forgotten. */
export class RecentLines {
  #lines: string[] = []
  #characters = 0

  add(line: string): void {
    this.#lines.push(line)
    this.#characters += line.length
    while (this.#lines.length > MOST_LINES || this.#characters > MOST_CHARACTERS) {
      this.#characters -= this.#lines.shift()?.length ?? 0
    }
  }

  /** The oldest first. */
  get all(): readonly string[] {
    return this.#lines
  }
}
