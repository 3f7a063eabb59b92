import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { renderReadme } from '../../../scripts/readme-tables.ts'
import { flags } from '../../../src/options/flags.ts'

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')
const readme = read('README.md')

test('its tables are those of the schema (npm run readme)', () => {
  expect(readme).toBe(renderReadme(readme))
})

test('every error code has a row, and every row an error', () => {
  const codes = (text: string) => [...new Set(text.match(/WASM_SERVE_\w+_\w+/g))].sort()
  const rows = readme
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .join('\n')
  const inTables = codes(rows).filter((code) => !flags.some(({ variable }) => variable === code))
  const errors = readdirSync(new URL('../../../src/errors', import.meta.url)).map((name) =>
    read(`src/errors/${name}`),
  )
  expect(inTables).toEqual(codes(errors.join('\n')))
})
