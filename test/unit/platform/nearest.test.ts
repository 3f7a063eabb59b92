import { expect, test } from 'vitest'
import { didYouMean, nearest } from '../../../src/platform/text.ts'

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
  ['', ['a'], undefined],
  ['a', [], undefined],
])('%j of %j: %j', (word, candidates, meant) => {
  expect(nearest(word, candidates)).toBe(meant)
  expect(didYouMean(word, candidates)).toBe(meant === undefined ? '' : `; did you mean "${meant}"?`)
})
