import type { FastifyReply } from 'fastify'
import { describe, expect, test, vi } from 'vitest'
import { HOSTILE_ANSWERS } from '../../../bench/hostile-answers.ts'
import { openContract } from '../../../src/contract/direct.ts'
import { readJson } from '../../../src/contract/json-output.ts'
import { GUEST_LIMITS } from '../../../src/platform/guest-limits.ts'

const BROKEN = { http: 'WASM_SERVE_CONTRACT_BROKEN', simplism: 'WASM_SERVE_SIMPLISM_BROKEN' }
const HEADERS = { http: 'headers', simplism: 'header' }

const { jsonDepth, jsonParts, jsonFields, headerLines, headerBytes, headerJsonBytes, replacedBytes } =
  GUEST_LIMITS

/** What a contract makes of an answer: the headers that it sets, or the code of its error. */
function outcomeOf(
  contract: 'http' | 'simplism',
  output: string | Uint8Array,
): string | Map<string, unknown> {
  const headers = new Map<string, unknown>()
  const reply = {
    code: () => reply,
    header: (name: string, value: unknown) => headers.set(name, value) && reply,
    send: () => reply,
  } as unknown as FastifyReply
  try {
    openContract(contract, {}).answer(Buffer.from(output), reply)
    return headers
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe.each(['http', 'simplism'] as const)('the contract %s', (contract) => {
  const field = HEADERS[contract]
  const withHeaders = (headers: unknown) => JSON.stringify({ [field]: headers })

  test.each([
    ['lines', headerLines, (count: number) => ({ vary: Array(count).fill('') })],
    [
      'names',
      headerLines,
      (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, ''])),
    ],
    ['bytes', headerBytes, (count: number) => ({ abcd: ['x'.repeat(8_000), 'x'.repeat(count - 8_008)] })],
  ])('takes as many %s of headers as the limit says, and no more', (_what, limit, headers) => {
    expect(outcomeOf(contract, withHeaders(headers(limit)))).toBeInstanceOf(Map)
    expect(outcomeOf(contract, withHeaders(headers(limit + 1)))).toBe(BROKEN[contract])
  })

  test('refuses headers whose JSON is larger than it may be, before it reads them', () => {
    const padded = (bytes: number) => `{"${field}":{${' '.repeat(bytes - 2)}}}`
    expect(outcomeOf(contract, padded(headerJsonBytes))).toBeInstanceOf(Map)
    expect(outcomeOf(contract, padded(headerJsonBytes + 1))).toBe(BROKEN[contract])
  })

  test('reads headers no further than they may be large', () => {
    const headers = { name: field, bytes: 1_000 }
    const read = (text: string) =>
      readJson(Buffer.from(text), (output) =>
        output.members({ what: '', depth: jsonDepth, items: 3, headers }),
      )
    const many = (count: number) => `{${'"a":"b",'.repeat(count)}"a":""}`
    expect(read(`{"body":${many(1_000)},"${field}":${many(100)},"z":${many(1_000)}}`)).toHaveLength(3)
    expect(() => read(`{"body":"","${field}":${many(200)}`.padEnd(4_000, '!'))).toThrow(/headers are larger/)
    expect(() => read(`{"body":"","other":${many(200)}`.padEnd(4_000, '!'))).toThrow(/not JSON/)
  })

  test('takes as many levels as the limit says, at any place, and no more', () => {
    const nested = (depth: number) =>
      `{"status":200,"body":"","headers":${'{"a":'.repeat(depth)}0${'}'.repeat(depth)}}`
    const scan = (depth: number) =>
      readJson(Buffer.from(nested(depth - 1)), (output) =>
        output.members({ what: '', depth: jsonDepth, items: 3 }),
      )
    expect(scan(jsonDepth)).toHaveLength(3)
    expect(() => scan(jsonDepth + 1)).toThrow()
    expect(outcomeOf(contract, nested(jsonDepth))).toBe(BROKEN[contract])
  })

  test('takes as many arrays and objects as the limit says, and no more', () => {
    const many = (count: number) => `{"body":"","other":[0${',[0]'.repeat(count - 1)}]}`
    const scan = (count: number) =>
      readJson(Buffer.from(many(count)), (output) => output.members({ what: '', depth: jsonDepth, items: 2 }))
    expect(scan(jsonParts)).toHaveLength(2)
    expect(() => scan(jsonParts + 1)).toThrow()
    expect(outcomeOf(contract, many(jsonParts + 1))).toBe(BROKEN[contract])
  })

  test('refuses an answer of too many fields', () => {
    const fields = (count: number) =>
      `{${Array(count)
        .fill(`"body":"${'a'.repeat(100)}"`)
        .join(',')}}`
    expect(outcomeOf(contract, fields(jsonFields))).toBeInstanceOf(Map)
    expect(outcomeOf(contract, fields(jsonFields + 1))).toBe(BROKEN[contract])
  })

  test('makes nothing of what it refuses: JSON.parse gets no more than the text of a string', () => {
    const parse = vi.spyOn(JSON, 'parse')
    for (const answer of HOSTILE_ANSWERS) {
      if (answer.contract !== contract) continue
      outcomeOf(contract, answer.make(100_000))
    }
    const parsed = parse.mock.calls.map(([text]) => text)
    parse.mockRestore()
    for (const text of parsed) expect(text.length <= 32 || text.startsWith('"')).toBe(true)
  })

  test('sets no header that could change an object', () => {
    const outcome = outcomeOf(contract, `{"${field}":{"__proto__":"a","constructor":"b"}}`)
    expect(outcome instanceof Map ? [...outcome.keys()] : outcome).not.toContain('__proto__')
    expect(outcomeOf(contract, '{"__proto__":{"status":204,"code":204},"body":""}')).toEqual(
      contract === 'http' ? BROKEN.http : new Map([['content-type', 'text/plain; charset=utf-8']]),
    )
  })
})

test('a large text that is not UTF-8 is refused by simplism, a small one is mended', () => {
  const body = (bytes: number) =>
    Buffer.concat([Buffer.from('{"body":"'), Buffer.alloc(bytes, 0xff), Buffer.from('"}')])
  expect(outcomeOf('simplism', body(replacedBytes))).toBeInstanceOf(Map)
  expect(outcomeOf('simplism', body(replacedBytes + 1))).toBe(BROKEN.simplism)
})
