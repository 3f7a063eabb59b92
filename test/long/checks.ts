/** Results of a long test, each compared with what is expected. */
export interface Checks {
  add(what: string, got: unknown, wanted: unknown): void
  /** Whether all are as expected. */
  readonly areRight: boolean
  /** How many are, as text. */
  renderCount(): string
  /** A table of Markdown, line by line. */
  renderTable(): readonly string[]
}

export function openChecks(): Checks {
  const rows: { readonly what: string; readonly got: string; readonly wanted: string }[] = []
  const right = () => rows.filter(({ got, wanted }) => got === wanted)
  return {
    add(what, got, wanted) {
      const row = { what, got: JSON.stringify(got), wanted: JSON.stringify(wanted) }
      rows.push(row)
      console.log(row.got === row.wanted ? `ok: ${what}` : `WRONG: ${what}: ${row.got}, not ${row.wanted}`)
    },
    get areRight() {
      return right().length === rows.length
    },
    renderCount: () => `${right().length} of ${rows.length} as expected`,
    renderTable: () => [
      '| what | result |',
      '| --- | --- |',
      ...rows.map(
        ({ what, got, wanted }) => `| ${what} | ${got === wanted ? 'as expected' : `**${got}**`} |`,
      ),
    ],
  }
}
