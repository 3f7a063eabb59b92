import { expect, test } from 'vitest'
import { didYouMean, nearest, renderTable } from '../../../src/platform/text.ts'

test.each([
  ['prot', ['host', 'port'], 'port'],
  ['PORT', ['host', 'port'], 'port'],
  ['timout', ['timeout', 'title'], 'timeout'],
  ['ab', ['b', 'zz'], 'b'],
  ['zz', ['a', 'b'], undefined],
  ['nothing', ['port', 'host'], undefined],
  ['--admin-port', ['--log', '--admin', '--port'], '--admin'],
  ['adminPort', ['log', 'admin'], 'admin'],
  ['administer', ['log', 'admin'], undefined],
  ['dev', ['new'], undefined],
  ['start', ['store'], undefined],
  ['chekc', ['check', 'cache'], 'check'],
  ['stat', ['status', 'apply'], 'status'],
  ['sta', ['status', 'start'], undefined],
  ['', ['a'], undefined],
  ['a', [], undefined],
])('%j of %j: %j', (word, candidates, meant) => {
  expect(nearest(word, candidates)).toBe(meant)
  expect(didYouMean(word, candidates)).toBe(meant === undefined ? '' : `; did you mean "${meant}"?`)
})

test('a long word has no nearest one', () => {
  expect(nearest(`port${'t'.repeat(1_000_000)}`, ['port'])).toBeUndefined()
})

test('a long cell of a table is cut', () => {
  expect(
    renderTable([
      ['a', 'b'],
      ['x'.repeat(65_536), 'y'],
    ]),
  ).toEqual([`  ${'a'.padEnd(203)}  b`, `  ${'x'.repeat(200)}...  y`])
})
