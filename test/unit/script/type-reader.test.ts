import { describe, expect, test } from 'vitest'
import { isModuleFile, isScript } from '../../../src/script/script.ts'
import { TokenReader } from '../../../src/script/token-reader.ts'
import {
  linesOfComment,
  TypeReader,
  type TypeSchema,
  textOfComment,
} from '../../../src/script/type-reader.ts'

const typeOf = (text: string, declared = '') => new TypeReader(`${text}${declared}`, 0).type()
const enumOf = (...values: NonNullable<TypeSchema['enum']>) => ({ type: typeof values[0], enum: values })
const object = (properties: object, required = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
})
const STRING = { type: 'string' }
const NUMBER = { type: 'number' }

describe('the schema of', () => {
  test.each<readonly [string, TypeSchema]>([
    ['string', STRING],
    ['number', NUMBER],
    ['boolean', { type: 'boolean' }],
    ['object', { type: 'object' }],
    ['Date', STRING],
    ["'a b'", enumOf('a b')],
    ['"a"', enumOf('a')],
    ['1.5', enumOf(1.5)],
    ['true', enumOf(true)],
    ['false', enumOf(false)],
    ['true | false', enumOf(true, false)],
    ["'a' | 'b' | 'c'", enumOf('a', 'b', 'c')],
    ["'a' | string", STRING],
    ["'a' | 1", {}],
    ['string | null', { type: 'string', nullable: true }],
    ['null | undefined | void | never | number', { type: 'number', nullable: true }],
    ['string | undefined', STRING],
    ['null', {}],
    ['Other | null', {}],
    ['{ a: string } | { b: string }', {}],
    ['string[] | number[]', {}],
    ['string[][]', { type: 'array', items: { type: 'array', items: STRING } }],
    ['readonly string[]', { type: 'array', items: STRING }],
    ['(string | number)[]', { type: 'array', items: {} }],
    ['Array<string>', { type: 'array', items: STRING }],
    ['ReadonlyArray<number>', { type: 'array', items: NUMBER }],
    ['Promise<string>', STRING],
    ['Readonly<{ a: string }>', object({ a: STRING })],
    ['Partial<{ a: string }>', object({ a: STRING }, [])],
    ['Record<string, number>', { type: 'object', additionalProperties: NUMBER }],
    ['Map<string, number>', {}],
    ['Other', {}],
    ['toString', {}],
    ['{}', object({})],
    [
      '{ a: string, b?: number; readonly c: boolean }',
      object({ a: STRING, b: NUMBER, c: { type: 'boolean' } }, ['a', 'c']),
    ],
    ['{ \'a-b\': string; "c": number }', object({ 'a-b': STRING, c: NUMBER })],
    ['{ readonly: string; readonly?: number }', object({ readonly: NUMBER }, ['readonly'])],
    [
      '{ /** One. */ a: string; b: string; /* two */ c: string }',
      object({ a: { ...STRING, description: 'One.' }, b: STRING, c: STRING }),
    ],
    ['/* before */ string // behind', STRING],
  ])('%s', (text, expected) => {
    expect(typeOf(text)).toEqual(expected)
  })

  test.each([
    'A & B',
    '{ [name: string]: number }',
    '(a: string) => void',
    '[string, number]',
    '',
    '{ a',
    '{ a string }',
    'Array<string',
    '...a',
    '`a`',
  ])('no JSON: %s', (text) => {
    expect(typeOf(text)).toBeUndefined()
  })

  test.each([
    ['type $A = string', '$A', STRING],
    ['export type A={ a: B }\ntype B = number', 'A', object({ a: NUMBER })],
    ['export interface A { a: string }', 'A', object({ a: STRING })],
    ['interface AB { a: string }', 'A', {}],
    ['  type A = string', 'A', {}],
  ])('what is declared: %s', (declared, name, expected) => {
    expect(typeOf(name, `;\n${declared}`)).toEqual(expected)
  })

  test('a type that refers to itself is known to some depth', () => {
    let schema = typeOf('A', ';\ninterface A { a: A }')
    let depth = 0
    for (; schema?.properties; depth++) schema = schema.properties.a
    expect([depth > 4, schema]).toEqual([true, {}])
  })
})

describe('the parameter', () => {
  const parameterOf = (text: string) => new TypeReader(text, 0).parameter()

  test.each([
    ['a: string)', false, STRING],
    ['a?: number)', true, NUMBER],
    ["a = 'x')", true, STRING],
    ['a = "x")', true, STRING],
    ['a = `x`)', true, STRING],
    ['a = 12)', true, NUMBER],
    ['a = true)', true, { type: 'boolean' }],
    ['a = false)', true, { type: 'boolean' }],
    ['a = other())', true, undefined],
    ['a: number = 5)', true, NUMBER],
    ['a, b)', false, undefined],
    ['{ a, b = f({ c: [1] }) }: { a: string })', false, object({ a: STRING })],
    ['[a, [b]]: string[])', false, { type: 'array', items: STRING }],
    ['a: (b: string) => void)', true, undefined],
  ])('%s', (text, isOptional, schema) => {
    expect(parameterOf(text)).toEqual({ isOptional, schema })
  })

  test('is none where there is none', () => {
    expect(parameterOf(' )')).toBeUndefined()
  })
})

test('tokens are names, numbers, texts and characters, without what is between them', () => {
  const text = ' a_$1 12.5 \'b c\' "d" `e\nf` /* g */ // h\n =>\u{1f600}'
  const reader = new TokenReader(text, 0)
  const tokens: string[] = []
  for (let token = reader.next(); token !== ''; token = reader.next()) tokens.push(token)
  expect(tokens).toEqual(['a_$1', '12.5', "'b c'", '"d"', '`e\nf`', '=', '>', '\u{1f600}'])
  expect([reader.comment, reader.next(), reader.at]).toEqual(['/* g */', '', text.length])
})

test('a token stays until it is taken', () => {
  const reader = new TokenReader('x  a b', 1)
  expect([reader.at, reader.peek(), reader.peek(), reader.skip('b'), reader.skip('a'), reader.at]).toEqual([
    3,
    'a',
    'a',
    false,
    true,
    5,
  ])
  for (const open of ['/* no end', '// no end']) expect(new TokenReader(open, 0).peek()).toBe('')
})

test.each([
  ['/** One. */', ['One.'], 'One.'],
  ['/**\n * One\n * two.\n *\n * @param a\n * three\n */', ['One', 'two.', '@param a', 'three'], 'One two.'],
  ['/** @param a */', ['@param a'], ''],
  ['/* One. */', [], ''],
  ['', [], ''],
])('of the comment %j the lines are %j', (comment, lines, text) => {
  expect([linesOfComment(comment), textOfComment(comment)]).toEqual([lines, text])
})

test.each([
  ['a.js', true, undefined],
  ['a.ts', true, undefined],
  ['a.jsx', true, undefined],
  ['a.TSX', true, undefined],
  ['a.mjs', true, true],
  ['a.MTS', true, true],
  ['a.cjs', true, false],
  ['a.cts', true, false],
  ['a.d.ts', false, undefined],
  ['a.d.mts', false, true],
  ['a.wasm', false, undefined],
  ['js', false, undefined],
  ['a.json', false, undefined],
  ['a.xjs', false, undefined],
])('%s is a script: %s, and a module: %s', (path, script, isModule) => {
  expect([isScript(path), isModuleFile(path)]).toEqual([script, isModule])
})
