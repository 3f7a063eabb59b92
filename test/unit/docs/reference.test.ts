import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { renderReference } from '../../../scripts/reference.ts'
import { variables } from '../../../src/options/flags.ts'

const ROOT = new URL('../../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')
const pages = await renderReference()

test.each(Object.keys(pages))('docs/reference/%s is as it is generated (npm run reference)', (name) => {
  expect(read(`docs/reference/${name}`)).toBe(pages[name])
})

test('every code has one entry', () => {
  const sources = readdirSync(new URL('src/errors', ROOT)).map((name) => read(`src/errors/${name}`))
  const codes = sources.join('\n').match(/(?<=code: ')\w+/g)
  const entries = pages['errors.md']?.match(/(?<=^### )\w+$/gm)
  expect(entries?.sort()).toEqual(codes?.sort())
  expect(new Set(entries)).toHaveLength(entries?.length ?? 0)
})

test('every option with a variable has one row', () => {
  for (const { option, variable } of variables) {
    const rows = pages['options.md']?.split('\n').filter((line) => line.includes(`| \`${variable}\` |`))
    expect(rows, option).toHaveLength(1)
  }
})
