import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ERRORS } from '../../../scripts/errors.ts'
import { renderReference } from '../../../scripts/reference.ts'
import { variables } from '../../../src/options/flags.ts'

const ROOT = new URL('../../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')
const pages = await renderReference()

test.each(Object.keys(pages))('docs/reference/%s is as it is generated (npm run reference)', (name) => {
  expect(read(`docs/reference/${name}`)).toBe(pages[name])
})

test('every error has an entry, and every entry an error', () => {
  const sources = readdirSync(new URL('src/errors', ROOT)).map((name) => read(`src/errors/${name}`))
  const codes = new Set(sources.join('\n').match(/WASM_SERVE_\w+_\w+/g))
  expect(ERRORS.map(([code]) => code).sort()).toEqual([...codes].sort())
})

test('every option with a variable has one row', () => {
  for (const { option, variable } of variables) {
    const rows = pages['options.md']?.split('\n').filter((line) => line.includes(`| \`${variable}\` |`))
    expect(rows, option).toHaveLength(1)
  }
})
