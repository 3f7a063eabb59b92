import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { growth, readGrowth, renderGrowth, staticFigures, type TableRows } from '../../../scripts/growth.ts'
import { renderJourneys } from '../../../scripts/journeys.ts'
import { sources } from '../../../scripts/rooms.ts'

const folder = (...figures: number[]): TableRows => ({ folders: [{ name: 'a/', figures }] })
const empty = '<!-- folders -->\n<!-- /folders -->\n'
const page = renderGrowth(empty, folder(3, 950, 20), 'The first count.')

test('the sources have not grown without a reason (npx tsx scripts/growth.ts "The reason.")', () => {
  expect(growth(readGrowth(), staticFigures(sources()))).toEqual([])
})

test('the page about the source has the figures of the journeys (npm run journeys)', () => {
  const written = readFileSync(new URL('../../../docs/contribute/source.md', import.meta.url), 'utf8')
  expect(written).toBe(renderJourneys(written, readGrowth()))
})

test('a table has the figures, rounded up, and the reason of what has grown', () => {
  expect(page).toContain('| `a/` | 3 | 1000 | 20 | The first count. |')
  expect(growth(page, folder(3, 1000, 20))).toEqual([])
})

test.each([
  [folder(4, 950, 20), ['folders, a/: files: 4, more than 3']],
  [
    folder(3, 1001, 21),
    ['folders, a/: lines: 1001, more than 1000', 'folders, a/: exports: 21, more than 20'],
  ],
  [folder(3, 700, 20), ['folders, a/: lines: 700, far fewer than 1000']],
  [{ folders: [] }, ['folders, a/: is not there any more']],
])('growth, and a page that says too much, are found: %j', (figures, found) => {
  expect(growth(page, figures)).toEqual(found)
})

test('a row that grows needs a reason, and others keep theirs', () => {
  expect(() => renderGrowth(page, folder(4, 950, 20), '')).toThrow('folders, a/')
  expect(renderGrowth(page, folder(4, 950, 20), 'A cache.')).toContain('| 4 | 1000 | 20 | A cache. |')
  expect(renderGrowth(page, folder(2, 950, 20), '')).toContain('| 2 | 1000 | 20 | The first count. |')
})

test('exports are counted one by one, and an option by the files that name it', () => {
  const text = "export const a = b.memoryMax\nexport type { C, D } from './c.ts'\nexport { e }\n"
  const files = new Map(['a', 'b', 'c', 'd'].map((name) => [`cli/${name}.ts`, text]))
  files.set('cli/e.ts', '// memoryMax\n')
  const { folders, options } = staticFigures(files)
  expect(folders?.[0]).toEqual({ name: 'cli/', figures: [5, 13, 16] })
  expect(options).toEqual([{ name: 'memoryMax', figures: [4] }])
})
