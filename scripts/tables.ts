/** A page with what is generated between two comments, `<!-- name -->` and `<!-- /name -->`, by the names. */
export function withTables(page: string, tables: Readonly<Record<string, string>>): string {
  return Object.entries(tables).reduce(
    (text, [name, lines]) =>
      text.replace(
        new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`),
        (_, begin: string, end: string) => begin + lines + end,
      ),
    page,
  )
}
