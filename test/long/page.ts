import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'

const PAGE = new URL('../../docs/contribute/long-tests.md', import.meta.url)

/**
 * Writes results to the page of the long tests: between the markers of this name, the other parts stay as they are. Without
 * markers the part is put at the end.
 */
export function keepSection(name: string, section: string): void {
  const text = readFileSync(PAGE, 'utf8')
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  const part = `${begin}\n\n${section}\n\n${end}`
  if (from < 0 && to < 0) writeFileSync(PAGE, `${text.trimEnd()}\n\n${part}\n`)
  else if (from < to) writeFileSync(PAGE, text.slice(0, from) + part + text.slice(to + end.length))
  else throw new Error(`${PAGE.pathname} has not both markers, ${begin} and ${end}, in this order`)
}

/** When and where results are from. */
export function renderOrigin(): string {
  const machine = `${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores`
  return `${new Date().toISOString().slice(0, 10)}, Node ${process.version}, ${machine}`
}
