import fc from 'fast-check'
import { expect, test } from 'vitest'
import { schemaOfScript } from '../../../src/script/function-types.ts'
import { runs } from '../../support/runs.ts'

/** What is known of the only function of a script. */
function known(text: string): unknown {
  const schema = schemaOfScript(text) as { exports: Record<string, unknown> } | undefined
  return Object.values(schema?.exports ?? {})[0]
}

const json = (schema: object) => ({ input: { contentType: 'application/json', ...schema } })
const object = (properties: object, required: readonly string[] = Object.keys(properties)) =>
  json({ type: 'object', properties, required })
const text = { input: { contentType: 'text/plain', type: 'string' } }

test.each([
  ['(name: string) {}', text],
  ["(name = 'World') {}", text],
  ['(count: number) {}', json({ type: 'number' })],
  [
    '({ a, b = 1 }: { a: string; b?: number }) {}',
    object({ a: { type: 'string' }, b: { type: 'number' } }, ['a']),
  ],
  [
    '(o: { readonly a: string, readonly: boolean }) {}',
    object({ a: { type: 'string' }, readonly: { type: 'boolean' } }),
  ],
  ["(o: { 'a-b': string[] }) {}", object({ 'a-b': { type: 'array', items: { type: 'string' } } })],
  [
    '(o: Array<{ a: 1 | 2 }>) {}',
    json({
      type: 'array',
      items: { type: 'object', properties: { a: { type: 'number', enum: [1, 2] } }, required: ['a'] },
    }),
  ],
  ["(o: { a: | 'x' | 'y' | null }) {}", object({ a: { type: 'string', enum: ['x', 'y'], nullable: true } })],
  ['(o: { a: string | undefined }) {}', object({ a: { type: 'string' } })],
  ['(o: { a: string | number }) {}', object({ a: {} })],
  ['(o: Record<string, number>) {}', json({ type: 'object', additionalProperties: { type: 'number' } })],
  ['(o: { a: (string)[] /* of all */ }) {}', object({ a: { type: 'array', items: { type: 'string' } } })],
  ['(o: { /** The first. */ a: string }) {}', object({ a: { type: 'string', description: 'The first.' } })],
  ['(o: Partial<{ a: string }>) {}', object({ a: { type: 'string' } }, [])],
])('knows the type of function f%s', (declaration, expected) => {
  expect(known(`export function f${declaration}`)).toEqual(expected)
  expect(known(`export const f = async ${declaration.replace(/ \{\}$/, ' => {}')}`)).toEqual(expected)
})

test.each([
  '() {}',
  '(a) {}',
  '(a: unknown) {}',
  '(a: Other) {}',
  '(a: A & B) {}',
  '(a: (b: string) => void) {}',
  '(a: { [name: string]: number }) {}',
  '(a: { f(): void }) {}',
  '({',
  '(a: {',
])('does not know the type of function f%s', (declaration) => {
  expect(known(`export function f${declaration}`)).toBeUndefined()
})

test('what is known is a schema of XTP, by the names of the functions', () => {
  expect(schemaOfScript('export function f(a: string) {}\nexport function g() {}')).toEqual({
    version: 'v1-draft',
    exports: { f: text },
  })
  expect(schemaOfScript('export function g() {}')).toBeUndefined()
})

test('types may be declared in the script, also by themselves', () => {
  const tree = `interface Tree { name: string; left?: Tree }
export type Kind = 'a' | 'b'
export function f(tree: Tree, kind: Kind) {}`
  expect(known(tree)).toMatchObject({
    input: { properties: { left: { properties: { name: { type: 'string' } } } } },
  })
  expect(known('type $ = { a: number }\nexport function f(a: $) {}')).toEqual(
    object({ a: { type: 'number' } }),
  )
})

test('JSDoc has types, descriptions of parameters and of the function', () => {
  const source = `/* a licence */
/**
 * Tells the weather.
 * Of tomorrow.
 *
 * @param {object} options
 * @param {string} options.city - The city.
 * @param {number} [options.days=3] How many days.
 * @returns a text
 */
export async function weather({ city, days = 3 }) {}`
  expect(known(source)).toEqual({
    description: 'Tells the weather. Of tomorrow.',
    ...object(
      {
        city: { type: 'string', description: 'The city.' },
        days: { type: 'number', description: 'How many days.' },
      },
      ['city'],
    ),
  })
  expect(known('/** @param {{ a: string }} o - All. */\nexport function f(o) {}')).toEqual(
    object({ a: { type: 'string' } }),
  )
  expect(
    known(
      '/**\n * @param o.a - The first.\n * @param o.b - Not there. */\nexport function f(o: { a: string }) {}',
    ),
  ).toEqual(object({ a: { type: 'string', description: 'The first.' } }))
})

test('what JSDoc says of a parameter without a name is not used', () => {
  expect(known('/** @param {string} */\nexport function f(a) {}')).toBeUndefined()
  expect(known('/** @param {string} other */\nexport function f(other) {}')).toEqual(text)
})

test('a property may have any name', () => {
  const schema = JSON.stringify(schemaOfScript('export function f(o: { __proto__: string }) {}'))
  expect(schema).toContain('"properties":{"__proto__":{"type":"string"}}')
  const documented = '/** @param {string} o.__proto__ */\nexport function f(o) {}'
  expect(JSON.stringify(schemaOfScript(documented))).toContain('"__proto__":{"type":"string"}')
})

test('nothing is known of scripts that describe themselves', () => {
  expect(schemaOfScript('export const tools = {}\nexport function f(a: string) {}')).toBeUndefined()
})

test('whatever the text, it ends', () => {
  const pieces = fc.constantFrom(
    ...'{ } ( ) [ ] < > : ; , ? | = "'.split(' '),
    'a',
    'string',
    'Array',
    'readonly',
    '/**',
    '*/',
    '//',
    '\n',
    'T',
  )
  fc.assert(
    fc.property(fc.array(pieces), (parts) => {
      const body = parts.join(' ')
      schemaOfScript(`type T = ${body}\n/** @param {${body}} a */\nexport function f(a: ${body}`)
    }),
    { numRuns: runs(300) },
  )
})
