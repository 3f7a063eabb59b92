import { readFileSync, writeFileSync } from 'node:fs'

const README = new URL('README.md', import.meta.url)

/**
 * Puts a set's table between its markers in `bench/README.md`, so that nobody copies numbers by hand.
 *
 * @throws when the markers are not there.
 */
export function updateReadme(set: string, markdown: string): void {
  const text = readFileSync(README, 'utf8')
  const [begin, end] = [`<!-- bench ${set} -->\n`, `<!-- end of bench ${set} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`bench/README.md has no markers ${begin.trim()} and ${end}`)
  writeFileSync(README, `${text.slice(0, from + begin.length)}\n${markdown}\n\n${text.slice(to)}`)
}
