import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasControl } from '../../../src/contract/json-machine.ts'
import { type JsonOutput, readJson, readStatus } from '../../../src/contract/json-output.ts'
import { type JsonSpan, scan } from '../../../src/contract/json-scan.ts'
import { runs } from '../../support/runs.ts'

const NO_LIMITS = { what: 'it', depth: 1_000, items: 1_000_000 }
const OPENING = { object: 0x7b, array: 0x5b }

const TEXT = (bytes: Buffer, { start, end }: JsonSpan) => JSON.parse(bytes.toString('utf8', start, end))

/** What is scanned of an object, as `JSON.parse` would read each part. */
function scanned(text: string | Buffer): [unknown, unknown][] {
  const bytes = Buffer.from(text)
  const { names, values } = scan(bytes, NO_LIMITS, OPENING.object)
  return values.map((value, place) => {
    const name = names[place]
    for (const span of [name, value]) if (span?.said) expect(span.said.toString()).toBe(TEXT(bytes, span))
    return [name && TEXT(bytes, name), TEXT(bytes, value)]
  })
}

const isScanned = (text: string) => {
  try {
    scanned(text)
    return true
  } catch (error) {
    expect(error).toMatchObject({ name: 'AnswerProblem' })
    return false
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}

const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())
const json = fc
  .tuple(object, fc.constantFrom('', ' ', '\t\n'))
  .map(([value, space]) => JSON.stringify(value, null, space))

test('each member of an object is found where it is, with its text', () => {
  fc.assert(
    fc.property(json, (text) => {
      expect(scanned(text)).toEqual(Object.entries(JSON.parse(text)))
    }),
    { numRuns: runs(200) },
  )
})

test('what `JSON.parse` refuses is refused, and nothing else', () => {
  const edit = fc.tuple(fc.nat(), fc.constantFrom(...'{}[]:,"\\ 0.e-+tfnu/\n\x01\x7f', ''))
  fc.assert(
    fc.property(json, fc.array(edit, { maxLength: 3 }), (text, edits) => {
      let edited = text
      for (const [at, by] of edits) {
        const place = at % (edited.length + 1)
        edited = edited.slice(0, place) + by + edited.slice(place + 1)
      }
      if (edited.isWellFormed()) expect([edited, isScanned(edited)]).toEqual([edited, isObject(edited)])
    }),
    { numRuns: runs(500) },
  )
})

test.each([
  '{}',
  ' { } ',
  '\t\r\n{"a"\t:\r1\n,"b":2}',
  '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"}',
  '{"a":-0.5e-10,"b":1E+5,"c":0,"d":-0,"e":12e3}',
  '{"":[],"a":[{}],"b":[[[1,2],[]],{"c":[null]}]}',
  '{"a":true,"b":false,"c":null}',
  '{"a":1,"a":2}',
  `{"${'a'.repeat(5_000)}":"${'\\n'.repeat(5_000)}"}`,
])('%j is read', (text) => {
  expect(isObject(text)).toBe(true)
  expect(Object.fromEntries(scanned(text).map(([name, value]) => [String(name), value]))).toEqual(
    JSON.parse(text),
  )
})

test.each([
  '',
  ' ',
  '[]',
  '"a"',
  '1',
  '{',
  '}',
  '{]',
  '{,}',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{"a":1 "b":2}',
  '{"a":1;}',
  '{"a" 1}',
  '{a:1}',
  '{1:1}',
  "{'a':1}",
  '{"a":1}}',
  '{"a":1} 2',
  '{"a":01}',
  '{"a":1.}',
  '{"a":.5}',
  '{"a":-}',
  '{"a":+1}',
  '{"a":1e}',
  '{"a":1e+}',
  '{"a":tru}',
  '{"a":truth}',
  '{"a":nul',
  '{"a":NaN}',
  '{"a":"\\x"}',
  '{"a":"\\u12g4"}',
  '{"a":"\n"}',
  '{"a\x1f":1}',
  '{"a":"b}',
  '{"a":["b}',
  '{"a":[1,]}',
  '{"a":[,1]}',
  '{"a":[1}',
  '{"a":{"b":1]}',
  '{"a":{"b"}}',
  '{"a":{"b":}}',
  '{"a":{1:2}}',
])('%j is refused', (text) => {
  expect([isObject(text), isScanned(text)]).toEqual([false, false])
})

test('the elements of an array are found within it', () => {
  const text = '{"a": [1, "two", [3], {"f": 4}, null] , "b": []}'
  const bytes = Buffer.from(text)
  const [list, empty] = scan(bytes, NO_LIMITS, OPENING.object).values
  const elements = scan(bytes, NO_LIMITS, OPENING.array, list)
  expect(elements.names).toEqual([])
  expect(elements.values.map((value) => TEXT(bytes, value))).toEqual([1, 'two', [3], { f: 4 }, null])
  expect(scan(bytes, NO_LIMITS, OPENING.array, empty).values).toEqual([])
  expect(() => scan(bytes, NO_LIMITS, OPENING.object, list)).toThrow('is not a JSON object')
  expect(() => scan(bytes, NO_LIMITS, OPENING.array)).toThrow('is not a JSON array')
})

describe('limits', () => {
  const scanWith = (text: string, limits: object) =>
    scan(Buffer.from(text), { ...NO_LIMITS, ...limits }, OPENING.object)

  test('of entries', () => {
    const text = '{"a":1,"b":[1,2,3,4],"c":3}'
    expect(scanWith(text, { items: 3 }).values).toHaveLength(3)
    expect(() => scanWith(text, { items: 2 })).toThrow('more than 2 entries')
  })

  test('of nesting, where the outermost and empty ones count as one', () => {
    const text = '{"a":[{"b":[1]}]}'
    expect(scanWith(text, { depth: 4 }).values).toHaveLength(1)
    expect(() => scanWith(text, { depth: 3 })).toThrow('more than 3 deep')
  })

  test('of headers, whatever is behind them', () => {
    const headers = { name: 'headers', bytes: 100 }
    const answerOf = (name: string, size: number) =>
      `{"x":"${'x'.repeat(500)}","${name}":{"a":"${'a'.repeat(size)}"},"y":"${'y'.repeat(500)}"}`
    expect(scanWith(answerOf('headers', 50), { headers }).values).toHaveLength(3)
    expect(scanWith(answerOf('others!', 500), { headers }).values).toHaveLength(3)
    for (const name of ['headers', 'Headers'])
      expect(() => scanWith(answerOf(name, 500), { headers })).toThrow('larger than 100 bytes')
    expect(() => scanWith('{"headers":{', { headers })).toThrow('not JSON')
    for (const value of ['\\n', 'x', '\\u00e9'])
      expect(() => scanWith(`{"headers":"\\n${value.repeat(500)}"}`, { headers })).toThrow(
        'larger than 100 bytes',
      )
  })
})

describe.each([
  ['small', ''],
  ['large', ' '.repeat(10_000)],
])('a %s output', (_, space) => {
  const read = <Result>(
    text: string,
    use: <Value>(output: JsonOutput<Value>, member: (name: string) => Value) => Result,
  ): Result =>
    readJson(Buffer.from(text + space), (output) => {
      const members = new Map(output.members(NO_LIMITS))
      return use(output, (name) => {
        const found = members.get(name)
        if (found === undefined) throw new Error(`no member ${name}`)
        return found
      })
    })

  test('has values of each kind', () => {
    const text = '{"a":"é\\n","b":-1.5,"c":null,"d":[1,2],"e":{"f":1},"g":true,"h":""}'
    read(text, (output, member) => {
      const kinds = ['a', 'b', 'c', 'd', 'e', 'g'].map((name) => output.kindOf(member(name)))
      expect(kinds).toEqual(['other', 'other', 'null', 'array', 'object', 'other'])
      expect(['a', 'b', 'd', 'h'].map((name) => output.string(member(name)))).toEqual([
        'é\n',
        undefined,
        undefined,
        '',
      ])
      expect(['a', 'b', 'c', 'g'].map((name) => output.number(member(name)))).toEqual([
        Number.NaN,
        -1.5,
        Number.NaN,
        Number.NaN,
      ])
      const texts = ['a', 'b', 'h'].map((name) => output.text(member(name)))
      expect(texts.map((each) => each && Buffer.from(each).toString())).toEqual(['é\n', undefined, ''])
      expect(output.elements(NO_LIMITS, member('d')).map((each) => output.number(each))).toEqual([1, 2])
      expect(output.members(NO_LIMITS, member('e')).map(([name]) => name)).toEqual(['f'])
      expect(Buffer.from(output.raw('d', member('d'))).toString()).toBe('[1,2]')
      expect(output.sizeOf(member('e'))).toBeGreaterThanOrEqual('{"f":1}'.length)
    })
  })

  test('has a member as it was written, the last of several', () => {
    read('{"a": 1.0, "b":[ ] ,"a" : { "n": 1e2 } }', (output, member) => {
      expect(Buffer.from(output.raw('a', member('a'))).toString()).toBe('{ "n": 1e2 }')
    })
  })

  test('is refused if it is something else, or has too many entries', () => {
    for (const text of ['[]', '1', 'null', '"a"', '{', 'x'])
      expect(() => read(text, () => 0)).toThrow(expect.objectContaining({ name: 'AnswerProblem' }))
    read('{"a":[1,2,3]}', (output, member) => {
      expect(output.elements({ ...NO_LIMITS, items: 3 }, member('a'))).toHaveLength(3)
      expect(() => output.elements({ ...NO_LIMITS, items: 2 }, member('a'))).toThrow('more than 2 entries')
      expect(() => output.members({ ...NO_LIMITS, items: 0 })).toThrow('more than 0 entries')
      expect(() => output.members(NO_LIMITS, member('a'))).toThrow('is not a JSON object')
    })
  })

  test.each([
    ['200', 200],
    ['599', 599],
    ['2e2', 200],
    ['199', undefined],
    ['600', undefined],
    ['200.5', undefined],
    ['"200"', undefined],
    ['null', undefined],
  ])('has the status %s: %s', (text, status) => {
    read(`{"s":${text}}`, (output, member) => {
      if (status === undefined)
        expect(() => readStatus(output, member('s'), 'status')).toThrow('status must be')
      else expect(readStatus(output, member('s'), 'status')).toBe(status)
    })
  })
})

test.each([
  1, 10, 100, 1_000, 100_000,
])('of %d bytes only the control characters among them are found', (length) => {
  const bytes = Buffer.concat([Buffer.of(1), Buffer.alloc(length, ' '), Buffer.of(1)])
  expect(hasControl(bytes, 1, length + 1)).toBe(false)
  expect(hasControl(bytes, 0, length + 1)).toBe(true)
  expect(hasControl(bytes, 1, length + 2)).toBe(true)
})
