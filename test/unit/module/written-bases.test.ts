import { expect, test } from 'vitest'
import { ByteReader } from '../../../src/module/bytes.ts'
import { WrittenBases } from '../../../src/module/written-bases.ts'

const CODES = {
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  br: 0x0c,
  br_if: 0x0d,
  call: 0x10,
  drop: 0x1a,
  get: 0x20,
  set: 0x21,
  tee: 0x22,
  load: 0x28,
  store: 0x36,
  const: 0x41,
  add: 0x6a,
} as const

/**
 * Which stores of a function need not be recorded, as `+` or `-`. Instructions are words with a number: a local, or the offset of
 * a store. Offsets up to 8 apart are near.
 */
function stores(text: string): string {
  const code = text.split(' ').map((word) => {
    const [name = '', number = '0'] = word.split(':')
    return { name: name as keyof typeof CODES, number: Number(number) }
  })
  const sets = new Map<number, number>()
  for (const { name, number } of code)
    if (name === 'set' || name === 'tee') sets.set(number, (sets.get(number) ?? 0) + 1)
  const bases = new WrittenBases((recorded, offset) => Math.abs(recorded - offset) <= 8)
  bases.begin(sets)
  let known = ''
  for (const { name, number } of code) {
    if (name === 'store') known += bases.knows(number) ? '+' : '-'
    const immediates = Uint8Array.of(number)
    bases.pass({
      code: CODES[name],
      at: 0,
      bytes: immediates,
      immediates: () => new ByteReader(immediates, 0, 1, 'test'),
    })
  }
  return known
}

const STORE = 'get:1 const store:0'

test.each([
  ['the same address', `${STORE} ${STORE}`, '-+'],
  ['an address near it', 'get:1 const store:0 get:1 const store:8 get:1 const store:9', '-+-'],
  ['another local', `${STORE} get:2 const store:0`, '--'],
  ['a computed address', `${STORE} get:1 const add const store:0`, '--'],
  ['a value that is computed', `${STORE} get:1 get:2 load const add store:0`, '-+'],
  ['an address that was kept', `get:1 tee:2 const store:0 ${STORE} get:2 const store:0`, '--+'],
  ['a local that is set', `${STORE} const set:1 ${STORE}`, '--'],
  [
    'a local that is set while its old value is on the stack',
    `${STORE} get:1 const set:1 const store:0`,
    '--',
  ],
  ['another local that is set', `${STORE} const set:2 ${STORE}`, '-+'],
  ['the same in a block', `${STORE} block ${STORE} end ${STORE}`, '-++'],
  ['what was in a block', `block ${STORE} ${STORE} end ${STORE}`, '-+-'],
  ['what was in an if', `const if ${STORE} else ${STORE} end ${STORE}`, '---'],
  ['what was before an if', `${STORE} const if ${STORE} else ${STORE} end ${STORE}`, '-+++'],
  ['the same in a loop', `${STORE} loop ${STORE} end`, '-+'],
  ['a local that the loop sets', `${STORE} loop ${STORE} const set:1 end`, '--'],
  ['a local that was set before the loop', `const set:1 ${STORE} loop ${STORE} end`, '-+'],
  ['an address from before a block', 'get:1 const block end store:0', '-'],
  ['the same behind a branch', `${STORE} const br_if:0 ${STORE}`, '-+'],
  ['the same behind a call', `${STORE} call ${STORE}`, '-+'],
  ['an address behind a call', `${STORE} get:1 const call store:0`, '--'],
  ['a value that was dropped', `${STORE} get:1 const const drop store:0`, '-+'],
])('a write is known, or not: %s', (_, text, expected) => {
  expect(stores(text)).toBe(expected)
})

test('nothing is known of the function before', () => {
  const bases = new WrittenBases(() => true)
  const read = (local: number) => {
    const immediates = Uint8Array.of(local)
    return { at: 0, bytes: immediates, immediates: () => new ByteReader(immediates, 0, 1, 'test') }
  }
  for (const expected of [false, false]) {
    bases.begin(new Map())
    bases.pass({ code: CODES.get, ...read(1) })
    bases.pass({ code: CODES.const, ...read(0) })
    expect(bases.knows(0)).toBe(expected)
    expect(bases.knows(0)).toBe(true)
  }
})
