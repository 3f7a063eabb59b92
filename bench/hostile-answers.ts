import type { FastifyReply } from 'fastify'
import { openContract } from '../src/contract/named.ts'

/** A guest's answer that is meant to take the event loop's time. */
export interface HostileAnswer {
  readonly name: string
  readonly contract: 'raw' | 'http' | 'simplism'
  /** @param bytes - About so many. */
  make(bytes: number): Uint8Array
}

/** A quarter of the default of `outputLimit`. */
const ANSWER_BYTES = 2_097_152

/** Text that is repeated, between a beginning and an end; the end may be missing. */
function repeated(begin: string, part: string | ((i: number) => string), end = ''): HostileAnswer['make'] {
  return (bytes) => {
    if (typeof part === 'string') {
      const middle = Buffer.alloc(Math.floor(bytes / Buffer.byteLength(part)) * Buffer.byteLength(part), part)
      return Buffer.concat([Buffer.from(begin), middle, Buffer.from(end)])
    }
    const parts: string[] = []
    for (let size = 0, i = 0; size < bytes; i++) {
      const text = part(i)
      parts.push(text)
      size += text.length
    }
    return Buffer.from(begin + parts.join('') + end)
  }
}

/** What of JSON costs most to read, at any place of an answer where a value may stand. */
const VALUES: readonly (readonly [
  name: string,
  begin: string,
  part: string | ((i: number) => string),
  end: string,
])[] = [
  ['one long string', '"', 'a', '"'],
  ['escapes', '"', '\\n', '"'],
  ['escapes of Unicode', '"', '\\u00e9', '"'],
  ['halves of characters', '"', '\\ud800', '"'],
  ['characters of three bytes', '"', '\u20ac', '"'],
  ['characters of four bytes', '"', '\u{1f600}', '"'],
  ['a string without end', '"', 'a', ''],
  ['zeros', '[0', ',0', ']'],
  ['a long number', '1', '1', ''],
  ['a long fraction', '0.1', '7', 'e-5'],
  ['empty arrays', '[[]', ',[]', ']'],
  ['empty objects', '[{}', ',{}', ']'],
  ['empty strings', '[""', ',""', ']'],
  ['words', '[null', ',true', ']'],
  ['arrays in arrays', '[', '[', ''],
  ['objects in objects', '{"a":', '{"a":', ''],
  ['short arrays in arrays', '[', '[[[[[[[[0]]]]]]]],', '0]'],
  ['white space', '', ' \n\t\r', '0'],
  ['many names', '{"":0', (i) => `,"${i.toString(36)}":0`, '}'],
  ['names that are indices', '{"":0', (i) => `,"${i * 7}":0`, '}'],
  ['names with escapes', '{"":0', (i) => `,"\\u0061${i.toString(36)}":0`, '}'],
  ['one name', '{"a":0', ',"a":0', '}'],
  ['one header with many values', '{"set-cookie":["a"', ',"a"', ']}'],
  ['many headers', '{"a":"b"', (i) => `,"${i.toString(36)}":"b"`, '}'],
  ['headers that differ by case', '{"set-cookie":["a"]', ',"Set-Cookie":["a"]', '}'],
  ['a long header', '{"a":"', 'a', '"}'],
  ['a header of control characters', '{"a":"', '\\u0001', '"}'],
  ['a header of spaces', '{"a":"', ' ', '"}'],
  ['a long name', '{"', 'A', '":"b"}'],
  ['prototypes', '{"__proto__":{"a":1}', ',"__proto__":{"__proto__":0}', '}'],
  ['Base64', '"', 'YWFh', '"'],
  ['Base64 with a bad end', '"', 'YWFh', '!"'],
  ['Base64 in the form for URLs', '"', 'Y-_h', '"'],
  ['Base64 with escapes', '"', 'YWF\\/', '"'],
  ['Base64 with spaces', '"', 'Y W F h', '"'],
]

const FIELDS = {
  http: ['status', 'headers', 'body', 'bodyBase64', 'other'],
  simplism: ['code', 'header', 'body', 'other'],
} as const

/** What is hostile to each contract, for each field and as a whole. */
export const HOSTILE_ANSWERS: readonly HostileAnswer[] = [
  { contract: 'raw', name: 'text', make: repeated('', '\u20ac') },
  { contract: 'raw', name: 'no UTF-8', make: (bytes) => Buffer.alloc(bytes, 0xff) },
  {
    contract: 'raw',
    name: 'no UTF-8 at the end',
    make: (bytes) => Buffer.concat([Buffer.alloc(bytes, '\u20ac'), Buffer.of(0xff)]),
  },
  ...(['http', 'simplism'] as const).flatMap((contract): HostileAnswer[] => [
    { contract, name: 'no UTF-8', make: noUtf8('', '') },
    { contract, name: 'a body that is no UTF-8', make: noUtf8('{"body":"', '"}') },
    { contract, name: 'many fields', make: repeated('{"body":""', (i) => `,"${i.toString(36)}":0`, '}') },
    { contract, name: 'one field', make: repeated('{"body":""', ',"body":""', '}') },
    { contract, name: 'a field with a long name', make: repeated('{"', 'BODY', '":0}') },
    ...VALUES.map(([name, begin, part, end]) => ({ contract, name, make: repeated(begin, part, end) })),
    ...FIELDS[contract].flatMap((field) =>
      VALUES.map(([name, begin, part, end]) => ({
        contract,
        name: `${field}: ${name}`,
        make: repeated(`{"${field}":${begin}`, part, end && `${end}}`),
      })),
    ),
  ]),
]

function noUtf8(begin: string, end: string): HostileAnswer['make'] {
  return (bytes) => Buffer.concat([Buffer.from(begin), Buffer.alloc(bytes, 0xff), Buffer.from(end)])
}

/** Takes an answer to nobody. */
const reply = {
  code: () => reply,
  header: () => reply,
  send: () => reply,
} as unknown as FastifyReply

/**
 * The time of the event loop that the worst answer for a contract takes, whether it is sent or refused: its CPU time, to
 * that of a loop which adds up the answer's bytes. On a quiet machine such a loop takes 0.5 ms a MiB.
 */
export function measureWorstAnswer(contract: HostileAnswer['contract']): number {
  const { answer } = openContract(contract, {})
  const answers = HOSTILE_ANSWERS.filter((hostile) => hostile.contract === contract)
  return Math.max(...answers.map(({ make }) => ratioOf(make(ANSWER_BYTES), answer)))
}

/** V8 has to optimize for some milliseconds, and collects garbage when it likes: what is slow is tried again. */
const TRIES = 5
const ENOUGH = 2

function ratioOf(output: Uint8Array, answer: (output: Uint8Array, reply: FastifyReply) => void): number {
  let [best, loop] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let tries = 0; tries < TRIES && !(best / loop < ENOUGH); tries++) {
    loop = Math.min(
      loop,
      cpuMicros(() => addUp(output)),
    )
    best = Math.min(
      best,
      cpuMicros(() => refuseOr(() => answer(output, reply))),
    )
  }
  return best / loop
}

function refuseOr(run: () => void): void {
  try {
    run()
  } catch {
    // It is refused: that counts too.
  }
}

function addUp(bytes: Uint8Array): number {
  let sum = 0
  for (let i = 0; i < bytes.length; i++) sum += bytes[i] ?? 0
  return sum
}

function cpuMicros(run: () => void): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return user + system
}
