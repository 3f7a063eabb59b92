import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { renderSecurity } from '../../../scripts/reference.ts'
import { flags } from '../../../src/options/flags.ts'

const read = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${name}`, import.meta.url)), 'utf8')
const PAGE = read('docs/protect/security.md')
const PROMISES = read('docs/contribute/promises.md')

interface Row {
  readonly claim: string
  readonly tests: readonly string[]
}

/** Of all tables with a column for tests. */
const rows: Row[] = [
  ...PROMISES.matchAll(/^\| claim \| tests \|\n\| --- \| --- \|\n((?:\|.*\n)+)/gm),
].flatMap(([, table = '']) =>
  table
    .trim()
    .split('\n')
    .map((line) => {
      const [, claim = '', tests = ''] = line.split('|').map((cell) => cell.trim())
      return { claim, tests: tests.split('<br>') }
    }),
)

test('the page promises what is tested, and nothing else', () => {
  expect(PAGE).toBe(renderSecurity(PAGE, PROMISES))
  const promised = PAGE.slice(PAGE.indexOf('## What is promised'), PAGE.indexOf('## What each flag opens'))
  const claims = [...promised.matchAll(/^- (.+)$/gm)].map(([, claim]) => claim)
  expect(claims).toEqual(rows.map(({ claim }) => claim))
  expect(rows.length).toBeGreaterThan(25)
})

test.each(rows)('$claim', ({ tests }) => {
  for (const named of tests) {
    const [, file = '', title = ''] = /^`(test\/[\w./-]+\.ts)`: (.+)$/.exec(named) ?? []
    expect([named, file !== '' && existsSync(new URL(`../../../${file}`, import.meta.url))]).toEqual([
      named,
      true,
    ])
    expect(titlesOf(read(file)), `${file} has no test of this title`).toContain(title)
  }
})

test('each flag that opens something is one of the command', () => {
  const table = PAGE.slice(PAGE.indexOf('## What each flag opens'), PAGE.indexOf('## What is not promised'))
  const named = [...table.matchAll(/^\| `--([\w-]+)` \|/gm)].map(([, flag = '']) => flag)
  expect(named.length).toBeGreaterThan(10)
  const known = flags.map(({ name }) => name)
  for (const flag of named) expect(known).toContain(flag)
})

/** Texts in quotes that a function follows, as titles do. */
function titlesOf(source: string): string[] {
  const titles = /(?:'([^'\n]+)'|"([^"\n]+)"),\s*(?:\{[^}]*\},\s*)?(?:async )?\(/g
  return [...source.matchAll(titles)].map(([, single, double]) => single ?? double ?? '')
}
