import { describe, expect, test } from 'vitest'
import { type AdminOperation, historyProblems, readProblems } from '../../support/fleet/history.ts'

/** An operation of a version, from a time to a time. */
function operation(
  version: number,
  [begun, ended]: readonly [number, number],
  rest: Partial<AdminOperation> = {},
) {
  return { version, begun, ended, outcome: 'ok', ...rest } satisfies AdminOperation
}

const first = operation(1, [0, 1], { expected: 1, revision: 2 })
const second = operation(2, [2, 3], { expected: 2, revision: 3 })

describe('a history has an order', () => {
  test.each<[string, AdminOperation[]]>([
    ['without operations', []],
    ['of changes one after the other', [first, second]],
    ['with a gap, which lost revisions leave', [first, operation(2, [2, 3], { expected: 2, revision: 7 })]],
    [
      'of changes at the same time, in either order',
      [operation(1, [0, 5], { revision: 3 }), operation(2, [1, 6], { revision: 2 })],
    ],
    [
      'with an unknown change, which was made',
      [
        first,
        operation(2, [2, 3], { expected: 2, outcome: 'unknown' }),
        operation(3, [4, 5], { expected: 3, revision: 4 }),
      ],
    ],
    [
      'with an unknown change, which was made after its end',
      [
        operation(1, [0, 1], { outcome: 'unknown' }),
        operation(2, [2, 3], { expected: 1, outcome: 'mismatch' }),
      ],
    ],
    [
      'with a mismatch, as another change came first',
      [first, operation(2, [0.5, 3], { expected: 1, outcome: 'mismatch' })],
    ],
    [
      'with refusals',
      [
        first,
        operation(2, [2, 3], { outcome: 'refused' }),
        operation(3, [4, 5], { expected: 2, revision: 3 }),
      ],
    ],
  ])('%s', (_, operations) => {
    expect(historyProblems(operations)).toEqual([])
  })

  test.each([
    ['that of the last acknowledged change', [first, second], { revision: 3, version: 2 }],
    [
      'that of an unknown change',
      [first, operation(2, [2, 3], { outcome: 'unknown' })],
      { revision: 3, version: 2 },
    ],
  ])('with a state at the end, %s', (_, operations, final) => {
    expect(historyProblems(operations, final)).toEqual([])
  })
})

describe('a history has no order', () => {
  test.each<[string, AdminOperation[], RegExp]>([
    [
      'if two changes have one revision',
      [first, operation(2, [0, 1], { revision: 2 })],
      /both are revision 2/,
    ],
    [
      'if two changes have replaced one revision',
      [first, operation(2, [0, 1], { expected: 1, revision: 3 })],
      /replaced revision 2, and expected 1/,
    ],
    [
      'if a change has overwritten one that it did not expect',
      [first, second, operation(3, [4, 5], { expected: 2, revision: 4 })],
      /replaced revision 3, and expected 2/,
    ],
    [
      'if a change is not newer than the revision that it replaced',
      [operation(1, [0, 1], { expected: 3, revision: 3 })],
      /replaced revision 3 as 3/,
    ],
    [
      'if revisions are not in the order of time',
      [operation(1, [0, 1], { revision: 3 }), operation(2, [2, 3], { revision: 2 })],
      /revision 3 ended before revision 2 began/,
    ],
    [
      'if they are not, with changes in between',
      [
        operation(1, [0, 1], { revision: 9 }),
        operation(2, [0, 9], { revision: 8 }),
        operation(3, [2, 3], { revision: 2 }),
      ],
      /revision 9 ended before revision 2 began/,
    ],
    [
      'if a mismatch has no reason',
      [first, operation(2, [2, 3], { expected: 2, outcome: 'mismatch' })],
      /did not match revision 2/,
    ],
    [
      'if the reason of a mismatch came later',
      [
        first,
        operation(2, [2, 3], { expected: 2, outcome: 'mismatch' }),
        operation(3, [4, 5], { expected: 2, revision: 3 }),
      ],
      /did not match revision 2/,
    ],
  ])('%s', (_, operations, problem) => {
    expect(historyProblems(operations)).toEqual([expect.stringMatching(problem)])
  })

  test.each([
    [
      'lost an acknowledged change',
      [first, second],
      { revision: 2, version: 1 },
      /revision 3 was acknowledged/,
    ],
    [
      'is that of a refused change',
      [first, operation(2, [2, 3], { outcome: 'refused' })],
      { revision: 3, version: 2 },
      /last version is 2/,
    ],
    ['is that of an earlier change', [first, second], { revision: 3, version: 1 }, /last version is 1/],
  ] as const)('if the state at the end %s', (_, operations, final, problem) => {
    expect(historyProblems(operations, final)).toEqual([expect.stringMatching(problem)])
  })
})

test('the answers of a server follow the order of changes, and none is that of a refused one', () => {
  const refused = operation(3, [4, 5], { outcome: 'refused' })
  const unknown = operation(4, [4, 5], { outcome: 'unknown' })
  const operations = [first, second, refused, unknown]
  expect(
    readProblems(operations, [
      [0, 1],
      [1, 2],
      [0, 2],
      [2, 4],
      [4, 2],
    ]),
  ).toEqual([])
  expect(readProblems(operations, [[2, 1]])).toEqual(['version 2 was followed by 1, which is older'])
  expect(readProblems(operations, [[2, 3]])).toEqual(['version 3 was served, and it was refused'])
})
