import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { isWorthKeeping, measuredBenches, renderBlock, renderHeadlines } from '../../../bench/tables.ts'

const BENCH = new URL('../../../bench/', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, BENCH), 'utf8')
const PAGE = read('README.md')

/** They load what was built: `npm run bench -- tables` renders them. */
const NEED_BUILD = ['calls', 'fresh', 'interrupts', 'merge', 'metering', 'soak']

const benches = measuredBenches().filter((bench) => !NEED_BUILD.includes(bench))

function blockOf(page: string, bench: string): string {
  const begin = `<!-- bench ${bench} -->\n`
  return page.slice(page.indexOf(begin) + begin.length, page.indexOf(`<!-- end of bench ${bench} -->`)).trim()
}

test.each(benches)('the page of %s shows its results: `npm run bench -- tables`', async (bench) => {
  expect(blockOf(read(`results/${bench}.md`), bench)).toBe(await renderBlock(bench))
})

test('the list of the pages has each bench that has results', () => {
  const listed = [...PAGE.matchAll(/\(results\/([\w-]+)\.md\)/g)].map(([, bench]) => bench)
  expect(listed).toEqual(expect.arrayContaining(measuredBenches()))
})

test('the headlines of the page are those of the results', () => {
  expect(blockOf(PAGE, 'headlines')).toBe(renderHeadlines())
})

test.each(measuredBenches())('the page of %s shows no times of a busy machine', (bench) => {
  expect(read(`results/${bench}.md`)).not.toMatch(/machine was (?:busy|not quiet)/)
})

test('times of a busy machine are not kept; counts and sizes are', () => {
  expect(isWorthKeeping({ bench: 'peers', quietness: { load: 0.02 } })).toBe(true)
  expect(isWorthKeeping({ bench: 'peers', quietness: { load: 1 } })).toBe(false)
  expect(isWorthKeeping({ bench: 'long-life', quietness: { load: 1 } })).toBe(true)
})

test('each ratio of a scenario has its interval beside it', () => {
  const pages = measuredBenches().map((bench) => read(`results/${bench}.md`))
  const rows = [
    ...pages.join('\n').matchAll(/^\| ([^|]+) \| \d+ \| ([\d.,]+) \| ([\d.,]+) to ([\d.,]+) \|/gm),
  ]
  expect(rows.length).toBeGreaterThan(20)
  const number = (text = '') => Number(text.replaceAll(',', ''))
  const outside = rows.filter(
    ([, , median, least, most]) => number(median) < number(least) || number(median) > number(most),
  )
  expect(outside).toEqual([])
})
