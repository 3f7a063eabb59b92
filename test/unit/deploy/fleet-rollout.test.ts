import { expect, test } from 'vitest'
import { nextHead, refuses } from '../../../src/deploy/fleet/rollout.ts'
import { ChangeRefusedError, PluginInvalidError } from '../../../src/errors/errors.ts'

const { newest } = nextHead(
  undefined,
  {
    ...{ configuration: 'a', edits: 'b', by: 'a test', reason: 'a change' },
    rules: { canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' },
  },
  { nodes: [], now: 1 },
)

test.each([
  ['a node that cannot serve a revision refuses it', new PluginInvalidError('a.wasm', 'it is text'), 2, true],
  [
    'a node that failed once does not refuse it yet',
    new PluginInvalidError('a.wasm', 'it is text'),
    1,
    false,
  ],
  [
    'a node that accepts no changes now does not',
    new ChangeRefusedError('no serving process runs'),
    9,
    false,
  ],
])('%s', (_name, { code, message }, attempts, expected) => {
  const refused = { revision: newest.revision, id: newest.id, code, message, attempts }
  expect(refuses({ refused }, { newest })).toBe(expected)
})
