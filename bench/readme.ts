import { readFileSync, writeFileSync } from 'node:fs'

/** Whether a README has a place for a bench. */
export function hasMarkers(file: URL, bench: string): boolean {
  return readFileSync(file, 'utf8').includes(`<!-- bench ${bench} -->`)
}

/**
 * Inserts the results of a bench between its markers in a README, so that numbers are not copied by hand.
 *
 * @throws when the markers are not there.
 */
export function updateReadme(file: URL, bench: string, markdown: string): void {
  const text = readFileSync(file, 'utf8')
  const [begin, end] = [`<!-- bench ${bench} -->\n`, `<!-- end of bench ${bench} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${file.pathname} has no markers ${begin.trim()} and ${end}`)
  writeFileSync(file, `${text.slice(0, from + begin.length)}\n${markdown}\n\n${text.slice(to)}`)
}
