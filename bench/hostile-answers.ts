import type { FastifyReply } from 'fastify'
import { openContract } from '../src/contract/direct.ts'
import { choose } from '../test/fuzz/mutate.ts'
import { randomOf } from '../test/support/random.ts'

/** A guest's answer that is meant to take the event loop's time. */
interface HostileAnswer {
  readonly name: string
  readonly contract: 'raw' | 'http' | 'simplism'
  /** @param bytes - About so many. */
  make(bytes: number): Uint8Array
}

/** An eighth of the default of `outputLimit`. Limits on counts, such as of arrays, allow at most one per byte. */
const ANSWER_BYTES = 1_048_576

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

/** Parts in a random order: branches on single bytes are most expensive if the processor cannot predict them. */
function mixed(...parts: readonly string[]): () => string {
  const random = randomOf(1)
  return () => parts[Math.floor(random() * parts.length)] ?? ''
}

/** The most expensive JSON to read, at any position of an answer where a value is allowed. */
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
  ['a mix of letters and escapes', '"', mixed('a', 'bc', '\\n'), '"'],
  ['a mix of escapes', '"', mixed('\\/', '\\n', '\\u20ac', '\\ud800', '\\udc00'), '"'],
  ['a mix of characters', '"', mixed('a', '\\u20ac', '\\ud800', '\\ud83d\\ude00', '\u{1f600}'), '"'],
  ['a mix of white space', '[', mixed(' ', '\n', '\t', '\r', '0,'), '0]'],
  ['a mix of values', '[', mixed('0,', '[],', '[[0]],', '"",', '"a",', '{"a":{"b":[]}},', ' '), '0]'],
  ['a mix of names', '{', mixed('"a":0,', '"":[{}],', '"\\n":"",', '"bc":true,'), '"":0}'],
  ['a name of escapes', '{"', mixed('\\/', '\\n', '\\u20ac', '\\ud800'), '":0}'],
  ['empty arrays at the deepest place', '['.repeat(900), '[],', `0${']'.repeat(900)}`],
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

/** The hostile answers for each contract: for each field and for the whole answer. */
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
    { contract, name: 'a name that is no UTF-8', make: noUtf8('{"', '":0}') },
    {
      contract,
      name: 'a mix of escapes as a name',
      make: repeated('{"', mixed('\\/', '\\u20ac', '\\ud800'), '":0}'),
    },
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

/** Receives and discards an answer. Contracts use no more of a reply, and a whole one needs an app: hence the assertion. */
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

/** Most parts of which the search makes an answer. */
const MAX_PARTS = 5

const PIECES = {
  text: [
    ...['a', 'bc', 'YWFh', '\u20ac', '\u{1f600}', ' ', '\\n', '\\"', '\\/', '\\\\'],
    ...['\\u0041', '\\u00e9', '\\u20ac', '\\ud800', '\\udc00', '\\ud83d\\ude00'],
  ],
  items: [
    ...['0,', '[],', '{},', '"",', '[[]],', '{"a":0},', '"a",', 'true,', '-1.5e3,', '[0,[{}]],', '"\\n",'],
    ...['"\\u20ac",', '{"a":{"b":[]}},', ' ', '\n', '\t\r '],
  ],
} as const

type Place = readonly [begin: string, pieces: keyof typeof PIECES, end: string]

/** Separators that the search inserts between parts, by kind. */
const PLACES: readonly [Place, ...Place[]] = [
  ['{"body":"', 'text', '"}'],
  ['{"bodyBase64":"', 'text', '"}'],
  ['{"body":["', 'text', '"]}'],
  ['{"', 'text', '":0}'],
  ['{"body":[', 'items', '0]}'],
  [`{"other":${'['.repeat(990)}`, 'items', `0${']'.repeat(990)},"body":""}`],
]

/**
 * Searches for answers that block the event loop longer than the known ones: random parts, alternating or mixed.
 *
 * @returns the worst of them, like {@link measureWorstAnswer}.
 */
export function searchWorstAnswer(
  contract: 'http' | 'simplism',
  seed: number,
  tries: number,
): { ratio: number; name: string } {
  const { answer } = openContract(contract, {})
  const random = randomOf(seed)
  let worst = { ratio: 0, name: '' }
  for (let i = 0; i < tries; i++) {
    const [begin, pieces, end] = choose(random, PLACES)
    const count = 1 + Math.floor(random() * MAX_PARTS)
    const parts = Array.from({ length: count }, () => choose<string>(random, PIECES[pieces]))
    const part = random() < 0.5 ? mixed(...parts) : parts.join('')
    const ratio = ratioOf(repeated(begin, part, end)(ANSWER_BYTES), answer)
    if (ratio > worst.ratio)
      worst = { ratio, name: `${begin.slice(0, 16)} ${typeof part} ${parts.join(' ')}` }
  }
  return worst
}

/** V8 optimizes during the first milliseconds and collects garbage at any time: slow results are measured again. */
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
