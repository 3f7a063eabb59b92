import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const ROOT = new URL('../../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')

test('every code has one entry', () => {
  const sources = readdirSync(new URL('src/errors', ROOT)).map((name) => read(`src/errors/${name}`))
  const codes = sources.join('\n').match(/(?<=code: ')\w+/g)
  const entries = read('docs/reference/errors.md').match(/(?<=^### )\w+$/gm)
  expect(entries?.sort()).toEqual(codes?.sort())
  expect(new Set(entries)).toHaveLength(entries?.length ?? 0)
})
