import { deepEqual, equal, ok } from 'node:assert/strict'
import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { FastifyReply } from 'fastify'
import { openContract } from '../../src/contract/direct.ts'
import { GUEST_LIMITS } from '../../src/platform/guest-limits.ts'
import { below, choose, mutate } from './mutate.ts'
import type { FuzzTarget, Random } from './target.ts'

/** What a plain reading of an answer finds, by `JSON.parse`. */
interface PlainAnswer {
  readonly status: unknown
  /** What the body has to be; undefined if this does not foretell it. */
  readonly body: Uint8Array | undefined
}

export interface EnvelopeOptions {
  readonly contract: 'http' | 'simplism'
  /** Of its errors. */
  readonly code: string
  readonly seeds: readonly unknown[]
  /** @param fields - Of the answer. */
  readonly read: (fields: Readonly<Record<string, unknown>>) => PlainAnswer
  readonly tokens: readonly [string, ...string[]]
}

/** Far more than an input of 64 KiB takes, and far less than what is quadratic takes. */
const MAX_CPU_MS = 200

const LINES_MAX = GUEST_LIMITS.headerLines + 3 // what the server adds

/**
 * Any output given to a contract is refused with an error of its own, or becomes the answer that a plain reading finds,
 * with headers that HTTP allows; it changes no object's prototype, and does not take the event loop's time.
 */
export function envelopeTarget(name: string, options: EnvelopeOptions): FuzzTarget {
  const { answer } = openContract(options.contract, {})
  return {
    name,
    seeds: () =>
      options.seeds.map((seed) => Buffer.from(typeof seed === 'string' ? seed : JSON.stringify(seed))),
    run(input) {
      read(Buffer.concat([input, SPACES]))
      return read(input)
    },
    mutate: (input, random) => mutateJson(input, options.tokens, random),
  }

  function read(input: Uint8Array): string {
    const { reply, sent } = collectReply()
    const problem = timed(() => {
      try {
        answer(input, reply)
        return undefined
      } catch (error) {
        return error
      }
    })
    deepEqual(propertiesOf({}), [], 'Object.prototype has changed')
    if (problem !== undefined) return checkRefusal(problem, options.code, input)
    checkAnswer(sent, options.read(plainFields(input)))
    return describe(sent)
  }
}

/** Makes an answer too large to be parsed as a whole. */
const SPACES = Buffer.alloc(2 * GUEST_LIMITS.jsonDepth, ' ')

interface Sent {
  status: number
  headers: Map<string, string | readonly string[]>
  body: Uint8Array
}

function collectReply(): { reply: FastifyReply; sent: Sent } {
  const sent: Sent = { status: 200, headers: new Map(), body: new Uint8Array() }
  const reply = {
    code(status: number) {
      sent.status = status
      return reply
    },
    header(name: string, value: string | readonly string[]) {
      sent.headers.set(name, value)
      return reply
    },
    send(body?: Uint8Array) {
      sent.body = body ?? new Uint8Array()
      return reply
    },
  }
  return { reply: reply as unknown as FastifyReply, sent }
}

/** The best of three tries counts: others use the machine, and V8 collects its garbage. */
function timed<Result>(run: () => Result): Result {
  for (let tries = 0; ; tries++) {
    const before = process.cpuUsage()
    const result = run()
    const { user, system } = process.cpuUsage(before)
    const ms = (user + system) / 1_000
    if (ms < MAX_CPU_MS) return result
    ok(tries < 2, `it took ${ms} ms of CPU`)
  }
}

function propertiesOf(value: object): string[] {
  const names: string[] = []
  for (const name in value) names.push(name)
  return names
}

/** Roughly: answers that differ in a number lead through the same code. */
function describe({ status, headers, body }: Sent): string {
  const lines = [...headers.values()].map((value) => (typeof value === 'string' ? 1 : value.length))
  const most = Math.min(Math.max(0, ...lines), 3)
  const size = body.length === 0 ? 'no' : 'a'
  return `${Math.floor(status / 100)}xx, ${Math.min(lines.length, 4)} headers, ${most} lines, ${size} body`
}

/** @returns its message, without numbers. */
function checkRefusal(problem: unknown, code: string, input: Uint8Array): string {
  ok(problem instanceof Error && 'code' in problem, String(problem))
  equal(problem.code, code)
  if (problem.message.includes('not JSON')) equal(parse(input), undefined)
  return problem.message.replaceAll(/\d+/g, '#')
}

function parse(input: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(input).toString())
  } catch {
    return undefined
  }
}

function plainFields(input: Uint8Array): Readonly<Record<string, unknown>> {
  const value = parse(input)
  ok(typeof value === 'object' && value !== null && !Array.isArray(value), 'JSON.parse finds no object')
  return value as Readonly<Record<string, unknown>>
}

function checkAnswer({ status, headers, body }: Sent, plain: PlainAnswer): void {
  equal(status, plain.status)
  ok(Number.isInteger(status) && status >= 200 && status <= 599)
  let lines = 0
  for (const [name, value] of headers) {
    validateHeaderName(name)
    for (const line of [value].flat()) {
      validateHeaderValue(name, line)
      lines++
    }
  }
  ok(lines <= LINES_MAX, `${lines} lines of headers`)
  if (plain.body && status !== 204 && status !== 205 && status !== 304) {
    equal(Buffer.compare(body, plain.body), 0, 'the body is another')
  }
}

function mutateJson(input: Uint8Array, tokens: readonly [string, ...string[]], random: Random): Uint8Array {
  if (random() < 0.5) return mutate(input, input, random)
  const at = below(random, input.length + 1)
  const token = Buffer.from(choose(random, tokens))
  const times = random() < 0.1 ? 1 << below(random, 12) : 1
  return Buffer.concat([
    input.subarray(0, at),
    ...Array.from({ length: times }, () => token),
    input.subarray(at + (random() < 0.3 ? token.length : 0)),
  ])
}

/** Of JSON, for {@link EnvelopeOptions.tokens}. */
export const JSON_TOKENS = [
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    ':',
    ',',
    '{}',
    '[]',
    '""',
    '\\',
    '\\"',
    '\\u0000',
    '\\ud800',
    '\\ud83d\\ude00',
    '\\x',
  ],
  ...[
    '0',
    '-0',
    '1e2',
    '1E+400',
    '0.5',
    '00',
    '.',
    'true',
    'null',
    'fals',
    ' ',
    '\n',
    '\ufeff',
    '\u20ac',
    '\u{1f600}',
  ],
  ...['"__proto__":', '"constructor":', ',"a":"b"', '"a":["b"]', '["a",1]', '"A":"b"', '"a b":"c"', '\u0000'],
]
