/** Renders rows of cells as lines with aligned columns. */
export function renderTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  )
}

/** A word as it has to be typed into a shell. */
export function shellWord(word: string): string {
  return /^[\w:/.,=@%+~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
