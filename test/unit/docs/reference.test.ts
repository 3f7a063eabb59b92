import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { renderReference } from '../../../scripts/reference.ts'
import { variables } from '../../../src/options/flags.ts'

const read = (name: string) =>
  readFileSync(new URL(`../../../docs/reference/${name}`, import.meta.url), 'utf8')

test('docs/reference is as it is generated (npm run reference)', async () => {
  for (const [name, page] of Object.entries(await renderReference())) expect(read(name), name).toBe(page)
})

test('every option with a variable has one row', () => {
  const lines = read('options.md').split('\n')
  for (const { option, variable } of variables)
    expect(
      lines.filter((line) => line.includes(`| \`${variable}\` |`)),
      option,
    ).toHaveLength(1)
})
