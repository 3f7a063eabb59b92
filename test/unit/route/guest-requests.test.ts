import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AnswerProblem } from '../../../src/contract/http-answer.ts'
import { EngineClosedError } from '../../../src/errors/errors.ts'
import { openOutbound } from '../../../src/guest/outbound/outbound.ts'
import { callStream } from '../../../src/guest/streams/stream-protocol.ts'
import type { Caller } from '../../../src/observe/observe.ts'
import { readAnswerHead } from '../../../src/route/streams/answer-head.ts'
import { encodeHead, withGuestRequests } from '../../../src/route/streams/guest-requests.ts'
import { runs } from '../../support/runs.ts'

const parsed = (...rawHeaders: string[]) =>
  JSON.parse(Buffer.from(encodeHead({ status: 200, rawHeaders })).toString())

test('the head of a response names headers in lower case, and cookies one by one', () => {
  expect(parsed('X-A', '1', 'x-a', '2', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2')).toEqual({
    status: 200,
    headers: { 'x-a': '1, 2', 'set-cookie': ['a=1', 'b=2'] },
  })
})

test('headers of the connection, the length and the server are left out of a head', () => {
  const hop = [
    'Connection',
    'close, X-Named',
    'X-Named',
    '1',
    'Keep-Alive',
    'x',
    'Transfer-Encoding',
    'chunked',
  ]
  const others = ['Content-Length', '3', 'Proxy-Authenticate', 'x', 'X-Request-Id', '1', '__proto__', 'x']
  expect(parsed(...hop, ...others, 'X-Kept', 'yes').headers).toEqual({ 'x-kept': 'yes' })
})

test('each head of a response is one of an answer', () => {
  const name = fc.stringMatching(/^[\w!#$%&'*+.^`|~-]{1,20}$/)
  const value = fc.stringMatching(/^[\t -~\x80-\xff]{0,50}$/)
  const common = fc.constantFrom(
    'content-type',
    'Content-Length',
    'connection',
    'set-cookie',
    '__proto__',
    'age',
  )
  const headers = fc.array(fc.tuple(fc.oneof(name, common), value), { maxLength: 50 })
  fc.assert(
    fc.property(headers, fc.integer({ min: 200, max: 599 }), (pairs, status) => {
      const head = readAnswerHead(encodeHead({ status, rawHeaders: pairs.flat() }))
      expect(head.status).toBe(status)
    }),
    { numRuns: runs(60) },
  )
})

test.each([
  [{ 'content-length': '1' }, /^content-length .*server/],
  [{ ETag: ['"a"', '"b"'] }, /^etag must have a single value$/],
  [{ 'Content-Type': 'nonsense' }, /^content-type must be a media type/],
  [{ 'a guest`s': 'text' }, /^a header /],
])('a head with %j is refused, and the message names headers that are known', (headers, message) => {
  expect(() => readAnswerHead(Buffer.from(JSON.stringify({ headers })))).toThrow(message)
})

/** What a recipient must know before the body, or could be led astray with. (RFC 9110, section 6.5.1) */
const BEFORE_BODY = {
  framing: ['Content-Length', 'Transfer-Encoding', 'Trailer', 'Connection'],
  routing: ['Host', 'Location'],
  'modifiers of requests': ['Cache-Control', 'Max-Forwards'],
  authentication: ['Authorization', 'WWW-Authenticate', 'Cookie', 'Set-Cookie'],
  content: ['Content-Encoding', 'Content-Type', 'Content-Range', 'Vary'],
}

test.each(Object.entries(BEFORE_BODY))('headers of %s are no trailers', (_what, names) => {
  const isTaken = (name: string) => {
    try {
      return readAnswerHead(Buffer.from(JSON.stringify({ trailers: ['etag', name] }))).trailers.size === 2
    } catch (error) {
      if (error instanceof AnswerProblem) return false
      throw error
    }
  }
  expect(names.filter(isTaken)).toEqual([])
  expect(isTaken('Server-Timing')).toBe(true)
})

/** The operations of a call that is running until `end` is called. */
function runCall() {
  let end: () => void = () => undefined
  const warnings: unknown[] = []
  const ignore = () => undefined
  const warn = (fields: unknown) => void warnings.push(fields)
  const log = { trace: ignore, debug: ignore, info: ignore, warn, error: ignore }
  const caller: Caller = { log }
  const running = new Promise<Uint8Array>((resolve) => (end = () => resolve(new Uint8Array())))
  const engine = {
    name: 'workers' as const,
    trouble: undefined,
    get stats(): never {
      throw new EngineClosedError()
    },
    ready: Promise.resolve(),
    call: () => running,
    close: () => Promise.resolve(),
  }
  const outbound = openOutbound({
    allowedHosts: ['origin.test'],
    responseMax: 1_000,
    network: { resolve: () => new Promise(() => undefined) },
  })
  const limits = { bufferBytes: 65_536, idleMs: 60_000, timeoutMs: 60_000 }
  const output = withGuestRequests(engine, { outbound, limits }).call('run', new Uint8Array(), caller)
  const open = (request: unknown) => callStream('httpOpen', [Buffer.from(JSON.stringify(request))], caller)
  return { caller, end, output, open, warnings }
}

const url = 'http://origin.test/'

test('a call has 16 open requests, and 1,024 in total', async () => {
  const { caller, end, output, open } = runCall()
  for (let handle = 1; handle <= 16; handle++) expect(open({ url })).toEqual({ answer: handle })
  expect(open({ url })).toEqual({ problem: 'full' })
  for (let handle = 17; handle <= 1_024; handle++) {
    expect(callStream('httpClose', [handle - 16], caller)).toEqual({ answer: undefined })
    expect(open({ url })).toEqual({ answer: handle })
  }
  expect(callStream('httpClose', [1_024], caller)).toEqual({ answer: undefined })
  expect(open({ url })).toEqual({ problem: 'full' })
  end()
  await output
})

test('after its call, and before, there are no requests', async () => {
  const { caller, end, output, open } = runCall()
  expect(open({ url })).toEqual({ answer: 1 })
  const waiting = callStream('httpRead', [1, 10], caller)
  end()
  await output
  expect(await waiting).toEqual({ problem: 'gone' })
  expect(open({ url })).toEqual({ problem: 'gone' })
  expect(await callStream('httpRead', [1, 10], caller)).toEqual({ problem: 'gone' })
  expect(callStream('httpOpen', [new Uint8Array()], { ...caller })).toEqual({ problem: 'unavailable' })
  expect(callStream('httpOpen', [new Uint8Array()], undefined)).toEqual({ problem: 'unavailable' })
})

test('whatever a guest asks for, it gets an answer or a code, and one warning', async () => {
  const { caller, end, output, warnings } = runCall()
  const request = fc.record(
    {
      url: fc.oneof(
        fc.constantFrom(url, 'http://else.test/', 'x:', 'http://origin.test:0/'),
        fc.webUrl(),
        fc.anything(),
      ),
      method: fc.oneof(fc.constantFrom('GET', 'post', 'CONNECT', 'A B'), fc.anything()),
      headers: fc.oneof(fc.dictionary(fc.string(), fc.string()), fc.anything()),
      length: fc.oneof(fc.integer(), fc.anything()),
      redirect: fc.oneof(fc.constantFrom('follow', 'manual'), fc.anything()),
    },
    { requiredKeys: [] },
  )
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    request.map((value) =>
      Buffer.from(JSON.stringify(value, (_key, each) => (typeof each === 'bigint' ? 1 : each))),
    ),
  )
  const known = ['invalid', 'forbidden', 'full']
  await fc.assert(
    fc.asyncProperty(bytes, fc.double(), fc.double(), async (json, handle, max) => {
      const opened = callStream('httpOpen', [json], caller)
      if ('answer' in opened) callStream('httpClose', [opened.answer], caller)
      else expect(known).toContain('problem' in opened && opened.problem)
      expect(await callStream('httpRead', [handle, max], caller)).toEqual({ problem: 'invalid' })
    }),
    { numRuns: runs(60) },
  )
  expect(warnings).toHaveLength(1)
  end()
  await output
})
