import { expect, test } from 'vitest'
import { constant } from '../../src/module/instructions.ts'
import { makeResettable } from '../../src/module/resettable.ts'
import { capped, codeSection, list, moduleOf, section } from '../support/module-bytes.ts'

const PAGES = 10
const DATA = 524_288

test.each([
  [150_000, 'lowest'],
  [150_001, undefined],
])('a module with %i places that write says of its writes: %s', (count, records) => {
  const store = [0x41, 0, 0x41, 0, 0x36, 2, 0] // i32.store of 0 at 0
  const bytes = moduleOf(
    section(1, list([0x60, 0, 0])),
    section(3, list(0)),
    section(5, list([0, PAGES])),
    codeSection({ code: new Uint8Array(count * store.length).map((_, at) => store[at % store.length] ?? 0) }),
    section(11, list([0, ...constant(DATA), 0x0b, 1, 0])),
  )
  expect(makeResettable(capped(bytes, 60_000), 'lowest')?.records).toBe(records)
})
