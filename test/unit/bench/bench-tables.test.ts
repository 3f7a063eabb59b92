import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { isWorthKeeping, measuredBenches, renderBlock, renderHeadlines } from '../../../bench/tables.ts'

const PAGE = readFileSync(new URL('../../../bench/README.md', import.meta.url), 'utf8')

/** They load what was built: `npm run bench -- tables` renders them. */
const NEED_BUILD = ['calls', 'merge', 'metering', 'soak']

const benches = measuredBenches().filter((bench) => !NEED_BUILD.includes(bench))

function blockOf(bench: string): string {
  const begin = `<!-- bench ${bench} -->\n`
  return PAGE.slice(PAGE.indexOf(begin) + begin.length, PAGE.indexOf(`<!-- end of bench ${bench} -->`)).trim()
}

test.each(benches)('the page shows the results of %s: `npm run bench -- tables`', async (bench) => {
  expect(blockOf(bench)).toBe(await renderBlock(bench))
})

test('the headlines of the page are those of the results', () => {
  expect(blockOf('headlines')).toBe(renderHeadlines())
})

test('the page shows no times of a busy machine', () => {
  expect(PAGE).not.toMatch(/machine was (?:busy|not quiet)/)
})

test('times of a busy machine are not kept; counts and sizes are', () => {
  expect(isWorthKeeping({ bench: 'peers', quietness: { load: 0.02 } })).toBe(true)
  expect(isWorthKeeping({ bench: 'peers', quietness: { load: 1 } })).toBe(false)
  expect(isWorthKeeping({ bench: 'long-life', quietness: { load: 1 } })).toBe(true)
})

test('each ratio of a scenario has its interval beside it', () => {
  const rows = [...PAGE.matchAll(/^\| ([^|]+) \| \d+ \| ([\d.,]+) \| ([\d.,]+) to ([\d.,]+) \|/gm)]
  expect(rows.length).toBeGreaterThan(20)
  const number = (text = '') => Number(text.replaceAll(',', ''))
  const outside = rows.filter(
    ([, , median, least, most]) => number(median) < number(least) || number(median) > number(most),
  )
  expect(outside).toEqual([])
})
