import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  callByPlace,
  DeclarationError,
  type HostFunction,
  readHostFunctions,
  renderTypeOf,
} from '../../../src/script/host-functions.ts'
import { bytesOf, codeSection, list, moduleOf, section } from '../../support/module-bytes.ts'
import { runs } from '../../support/runs.ts'

/** What it reads, or why it does not. */
function read(text: string): readonly HostFunction[] | DeclarationError {
  try {
    return readHostFunctions(text)
  } catch (error) {
    if (error instanceof DeclarationError) return error
    throw error
  }
}

const declaring = (text: string) => `declare module "extism:host" { ${text} }`

test('reads functions with their parameters and results, between comments', () => {
  const text = `import x from 'y'
    declare module 'main' { export function run(): I32 }
    ${declaring(`
      /* those of the application { */
      interface user {
        // a sum
        add(a: I64, b: I32,): F64;
        note(text: PTR): void
      }
      interface user { none(): I32 }
    `)}
    export interface user { other(): string }`
  expect(readHostFunctions(text)).toEqual([
    { name: 'add', params: ['I64', 'I32'], result: 'F64' },
    { name: 'note', params: ['I64'] },
    { name: 'none', params: [], result: 'I32' },
  ])
})

test('a text without declarations has none', () => {
  expect(readHostFunctions("export const host = 'extism:host'")).toEqual([])
})

test.each([
  ['interface user { f(a: string): void }', '"string"', 'is not a type of WebAssembly'],
  ['interface user { f(a: void): void }', 'void', 'a parameter cannot be void'],
  ['interface env { alloc(a: I64): I64 }', 'env', 'write "interface user"'],
  ['interface user { f(a: I64) }', '}', 'expected ":" and found "}"'],
  ['interface user { f(', '', 'has no end'],
  ['interface user { // f', '', 'has no end'],
  [`interface user { f(${'a: I32, '.repeat(17)}): void }`, '', 'f has 17 parameters: the most are 16'],
  [
    `interface user { ${'f(): void '.repeat(33)}} }`,
    '',
    'it declares 33 functions of the host: the most are 32',
  ],
])('refuses %s', (text, found, reason) => {
  const whole = `declare module 'extism:host' { ${text}`
  const declared = read(whole)
  expect(declared).toMatchObject({ message: expect.stringContaining(reason) })
  if (declared instanceof DeclarationError && found !== '')
    expect(whole.slice(declared.at).startsWith(found.replaceAll('"', ''))).toBe(true)
})

test('whatever the text, it is read or has a place', () => {
  const pieces = fc.constantFrom(
    'interface',
    'user',
    '{',
    '}',
    '(',
    ')',
    ':',
    ',',
    'I64',
    'void',
    '//',
    '/*',
    '*/',
    '\n',
    '😄',
    'a',
  )
  fc.assert(
    fc.property(fc.array(pieces), (parts) => {
      const text = declaring(parts.join(' '))
      const declared = read(text)
      if (declared instanceof DeclarationError) expect(declared.at).toBeLessThanOrEqual(text.length)
      else expect(declared.length).toBeLessThanOrEqual(32)
    }),
    { numRuns: runs(200) },
  )
})

test('a call by its place passes each type on, and writes the result', () => {
  const declared = readHostFunctions(
    declaring(
      `interface user { sum(a: I32, b: I64, c: F32, d: F64): F64; note(a: PTR): void; one(): I32; two(a: I32): I64; three(): F32 }`,
    ),
  )
  const calls: unknown[] = []
  const answers: Readonly<Record<string, unknown>> = { sum: 10.5, one: -1, two: 2n ** 40n, three: 1.5 }
  const host = Object.fromEntries(
    declared.map(({ name }) => [
      name,
      (...args: unknown[]) => {
        calls.push([name, ...args])
        return answers[name]
      },
    ]),
  )
  const caller = { name: 'call', params: ['I32', 'I32'] } as const
  const bytes = moduleOf(
    section(1, list(...declared.map(renderTypeOf), renderTypeOf(caller))),
    section(
      2,
      list(...declared.map(({ name }, place) => bytesOf(1, 0x68, name.length, Buffer.from(name), 0, place))),
    ),
    section(3, list(declared.length)),
    section(5, list([0, 1])),
    section(7, list([4, ...Buffer.from('call'), 0, declared.length], [1, 0x6d, 2, 0])),
    codeSection({ code: callByPlace(declared, 0) }),
  )
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(bytes)), { h: host })
  const { call, m } = exports
  if (typeof call !== 'function' || !(m instanceof WebAssembly.Memory)) throw new Error('no call')
  const view = new DataView(m.buffer)
  const at = 64
  view.setInt32(at, -5, true)
  view.setBigInt64(at + 8, -(2n ** 50n), true)
  view.setFloat32(at + 16, 0.5, true)
  view.setFloat64(at + 24, 1e100, true)
  call(0, at)
  expect(view.getFloat64(at, true)).toBe(10.5)
  view.setBigInt64(at, 77n, true)
  call(1, at)
  expect(view.getBigInt64(at, true)).toBe(77n)
  call(2, at)
  expect(view.getInt32(at, true)).toBe(-1)
  call(3, at)
  expect(view.getBigInt64(at, true)).toBe(2n ** 40n)
  call(4, at)
  expect(view.getFloat32(at, true)).toBe(1.5)
  call(9, at)
  expect(calls).toEqual([
    ['sum', -5, -(2n ** 50n), 0.5, 1e100],
    ['note', 77n],
    ['one'],
    ['two', -1],
    ['three'],
  ])
})

test.each([
  ["declare module 'extism:host' interface user { f(): void }", 'interface'],
  ["declare module 'extism:host' { interface user f(): void }", 'f'],
  ["declare module 'extism:host' { interface user { f): void } }", ')'],
  ["declare module 'extism:host' { interface user { f(a I32): void } }", 'I32'],
  ["declare module 'extism:host' { interface user { f(a: I32) I32 } }", 'I32'],
  ["declare module 'extism:host' { interface user { 'f'(): I32 } }", "'f'"],
  ["declare module 'extism:host' { type user = 5 }", 'type'],
])('what does not belong has its place: %s', (text, found) => {
  const declared = read(text)
  if (!(declared instanceof DeclarationError)) throw new Error('it was read')
  expect(text.slice(declared.at).startsWith(found)).toBe(true)
})

test('as many functions and parameters as there is room for are read', () => {
  const params = Array.from({ length: 16 }, (_, place) => `a${place}: I32`).join()
  const functions = Array.from({ length: 32 }, (_, place) => `f${place}(${params}): void;`).join('')
  const declared = readHostFunctions(declaring(`interface user { ${functions} }`))
  expect([declared.length, declared[31]?.params.length]).toEqual([32, 16])
})
