import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { renderContributing } from '../../../scripts/reference.ts'
import { brokenRules, sources } from '../../../scripts/rooms.ts'

const tree = (files: Record<string, string>) => new Map(Object.entries(files))

test('the sources keep to the order of the folders', () => {
  expect(brokenRules(sources())).toEqual([])
})

test('the console imports only its own files, in no circle', () => {
  const files = sources('console')
  expect(brokenRules(files)).toEqual([])
  files.set('main.tsx', `${files.get('main.tsx')}import type { Engine } from '../src/engine/engine.ts'\n`)
  expect(brokenRules(files)).toEqual(['main.tsx imports ../src/engine/engine.ts, which is not there'])
})

test('the plan in CONTRIBUTING.md is the order that is checked (npm run reference)', () => {
  const page = readFileSync(new URL('../../../CONTRIBUTING.md', import.meta.url), 'utf8')
  expect(page).toBe(renderContributing(page))
})

test.each([
  ["import { a } from '../route/a.ts'", 'of a value'],
  ["import type { A } from '../route/a.ts'", 'of a type'],
  ["export { a } from '../route/a.ts'", 'that is exported'],
  ["const a = await import('../route/a.ts')", 'at run time'],
  ["type A = import('../route/a.ts').A", 'in a type'],
])('an import upwards is found: %s', (text) => {
  const files = tree({ 'engine/b.ts': text, 'route/a.ts': 'export const a = 1' })
  expect(brokenRules(files)).toEqual(['engine/b.ts imports route/a.ts, which is not below it'])
})

test('one of a source of today that is turned around is found', () => {
  const files = sources()
  const door = files.get('errors/errors.ts')
  files.set('errors/errors.ts', `${door}import type { Engine } from '../engine/engine.ts'\n`)
  expect(brokenRules(files)).toContain('errors/errors.ts imports engine/engine.ts, which is not below it')
})

test('files that import each other are found, however many', () => {
  const next = (name: string) => `import './${name}.ts'`
  const files = tree({ 'route/a.ts': next('b'), 'route/b.ts': next('c'), 'route/c.ts': next('a') })
  expect(brokenRules(files)).toEqual([
    'these import each other in a circle: route/a.ts, route/b.ts, route/c.ts',
  ])
})

test('a folder that has no place is found, and what is not there', () => {
  const files = tree({ 'attic/a.ts': '', 'route/a.ts': "import './b.ts'" })
  expect(brokenRules(files)).toEqual([
    'attic/a.ts is in a folder that scripts/rooms.ts does not know',
    'route/a.ts imports route/b.ts, which is not there',
  ])
})

test('the files that the page about the source names are there', () => {
  const root = new URL('../../../', import.meta.url)
  const page = readFileSync(new URL('docs/contribute/source.md', root), 'utf8')
  const named = [...page.matchAll(/`(\w[\w-]*\/[\w/-]+\.ts)`/g)].map(([, path]) => path ?? '')
  expect(named.length).toBeGreaterThan(20)
  expect(named.filter((path) => !existsSync(new URL(`src/${path}`, root)))).toEqual([])
})
