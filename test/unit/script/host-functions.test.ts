import fc from 'fast-check'
import { expect, test } from 'vitest'
import { DeclarationError, type HostFunction, readHostFunctions } from '../../../src/script/host-functions.ts'
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
