import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import type { LiveCounts } from '../../../console/admin-api.ts'
import {
  bytesOfBody,
  type CallRequest,
  headersOf,
  problemWithBody,
  renderCurl,
} from '../../../console/call-view.tsx'
import { EventStream } from '../../../console/event-stream.ts'
import {
  formatBytes,
  formatMs,
  formatRate,
  fromBase64,
  toBase64,
  toHex,
  toText,
} from '../../../console/format.ts'
import { LiveHistory, percentile } from '../../../console/live-server.ts'
import { StreamedAnswer } from '../../../console/streamed-call.ts'
import { RecentLines } from '../../../src/observe/log/log.ts'
import { startWithAdmin } from '../../support/admin-api.ts'
import { guest } from '../../support/guest.ts'

const METER = { plugin: 'a', waiting: 1, guestBytes: 100, kernelBytes: 20 }

/** An answer with `calls` calls of one millisecond and one failure on each of two routes. */
function liveAt(ms: number, calls: number): LiveCounts {
  const counted = {
    ...METER,
    digest: 'abc',
    outcomes: { ok: calls, trap: 1, guest_error: 1 },
    guest: [0, calls, 0],
  }
  const meters = [
    { ...counted, route: '/a' },
    { ...counted, route: '/b' },
  ]
  const total = {
    outcomes: { ok: 2 * calls, trap: 2, guest_error: 2 },
    guest: [0, 2 * calls, 0],
    ...{ waiting: 2, guestBytes: 200, kernelBytes: 40 },
  }
  return { ...LIVE, ms, total, meters }
}

const LIVE = { revision: 1, state: 'serving', memoryBytes: 1, boundsMs: [0.5, 1], routes: 2 }

/** The ids of both routes. */
const BOTH = ['1', '2']

test('rates and percentiles are those of the last seconds', () => {
  const history = new LiveHistory()
  expect(history.now()).toMatchObject({ rate: 0, p50: undefined })
  history.add(liveAt(1_000, 1_000), BOTH)
  expect(history.now()).toMatchObject({ rate: 0, failureRate: 0, p50: undefined, bytes: 240, waiting: 2 })
  for (let second = 2; second <= 20; second++) history.add(liveAt(second * 1_000, 1_000 + second * 10), BOTH)
  const all = history.now()
  expect(all).toMatchObject({ rate: 20, failureRate: 0 })
  expect(all.p50).toBeCloseTo(0.75)
  const one = { ids: ['1'], routes: ['/a'], digests: ['abcdef'] }
  expect(history.now(one)).toMatchObject({ rate: 10, bytes: 120, calls: 1_202 })
  expect(history.now({ ...one, digests: ['fff'] })).toMatchObject({ rate: 0, bytes: 0 })
  expect(
    history
      .points(one)
      .slice(-3)
      .map(({ rate }) => rate),
  ).toEqual([10, 10, 10])
})

test('a meter that is new counts from 0, and a server that was started again has no past', () => {
  const history = new LiveHistory()
  const both = { ids: BOTH, routes: ['/a', '/b'], digests: ['abcdef'] }
  const { total, ...first } = liveAt(1_000, 0)
  history.add({ ...first, meters: [], total: { ...total, outcomes: {}, guest: [0, 0, 0] } }, BOTH)
  history.add(liveAt(2_000, 5), BOTH)
  for (const filter of [undefined, both])
    expect(history.now(filter)).toMatchObject({ rate: 14, failureRate: 2 })
  history.add(liveAt(10, 1), BOTH)
  expect(history.now()).toMatchObject({ rate: 0 })
  expect(history.points()).toEqual([])
})

test('rates of a route that was not asked for begin when it is', () => {
  const history = new LiveHistory()
  const one = { ids: ['1'], routes: ['/a'], digests: ['abcdef'] }
  history.add({ ...liveAt(1_000, 100), meters: [] }, [])
  history.add({ ...liveAt(2_000, 200), meters: [] }, ['2'])
  history.add(liveAt(3_000, 300), BOTH)
  expect(history.now(one)).toMatchObject({ rate: 0, calls: 302 })
  history.add(liveAt(4_000, 330), BOTH)
  expect(history.now(one)).toMatchObject({ rate: 30 })
  expect(history.points(one).map(({ rate }) => rate)).toEqual([0, 0, 30])
})

test('percentiles lie within their bucket', () => {
  expect(percentile([], [1, 2], 0.5)).toBeUndefined()
  expect(percentile([4, 0, 0], [1, 2], 0.5)).toBe(0.5)
  expect(percentile([0, 4, 0], [1, 2], 0.5)).toBe(1.5)
  expect(percentile([1, 0, 99], [1, 2], 0.99)).toBe(2) // all that is known
})

const REQUEST: CallRequest = {
  method: 'POST',
  path: '/a?b=c d&$(id)',
  headers: 'content-type:\nX-A: it\'s `id` \\ "$HOME"\nno header',
  kind: 'text',
  text: "a'b\n@c $(id) 😄",
}

/** What a shell makes of the command line: the words that curl gets, and its standard input. */
function shellWords(request: CallRequest, server = 'http://127.0.0.1:8080'): string[] {
  const line = renderCurl(server, request)
  const script = `curl() { for word; do printf '%s\\0' "$word"; done; case "$*" in *@-) printf 'stdin:'; od -An -tx1;; esac; }; ${line}`
  return execFileSync('sh', ['-c', script]).toString().split('\0')
}

test('a shell reads the line for curl as it is meant', () => {
  expect(shellWords(REQUEST)).toEqual([
    '-i',
    'http://127.0.0.1:8080/a?b=c d&$(id)',
    '-H',
    'content-type;',
    '-H',
    'x-a: it\'s `id` \\ "$HOME"',
    '--data-raw',
    "a'b\n@c $(id) 😄",
    '',
  ])
  const bytes = shellWords({ ...REQUEST, method: 'PUT', kind: 'base64', text: 'AP 8Q' })
  expect(bytes.slice(-2)).toEqual(['@-', 'stdin: 00 ff 10\n'])
  expect(bytes).toContain('PUT')
  const none = { ...REQUEST, headers: '', method: 'GET', kind: 'none', host: 'a.test' } as const
  expect(shellWords(none, 'unix:/run/a b.sock')).toEqual([
    '-i',
    '--unix-socket',
    '/run/a b.sock',
    'http://localhost/a?b=c d&$(id)',
    '-H',
    'host: a.test',
    '',
  ])
  expect(shellWords({ ...none, kind: 'file', file: new File([], 'a b.txt') }).slice(-3)).toEqual([
    '--data-binary',
    '@a b.txt',
    '',
  ])
})

test('a body is sent as its kind says, with a type that a typed header replaces', async () => {
  const file = new File([new Uint8Array([1])], 'a.png', { type: 'image/png' })
  expect(await bytesOfBody({ ...REQUEST, kind: 'base64', text: 'AP8Q' })).toEqual(
    new Uint8Array([0, 255, 16]),
  )
  expect(await bytesOfBody({ ...REQUEST, kind: 'file', file })).toEqual(new Uint8Array([1]))
  expect(await bytesOfBody({ ...REQUEST, kind: 'none' })).toBeUndefined()
  expect(headersOf({ ...REQUEST, kind: 'file', file, headers: '' })).toEqual({ 'content-type': 'image/png' })
  expect(headersOf({ ...REQUEST, headers: 'Content-Type : a/b' })).toEqual({ 'content-type': 'a/b' })
  expect(problemWithBody(REQUEST)).toBeUndefined()
  for (const kind of ['json', 'base64', 'file'] as const)
    expect([kind, problemWithBody({ ...REQUEST, kind })]).toEqual([kind, expect.any(String)])
})

test('bytes become base64, text or hex, and what is none is told from it', () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, place) => place % 256)
  expect(fromBase64(toBase64(bytes))).toEqual(bytes)
  expect(fromBase64(' -_8\n')).toEqual(new Uint8Array([0xfb, 0xff]))
  expect(fromBase64('a')).toBeUndefined()
  expect(toText(new TextEncoder().encode('a\tb\n😄'))).toBe('a\tb\n😄')
  expect(toText(new Uint8Array([0xff]))).toBeUndefined()
  expect(toText(new Uint8Array([0]))).toBeUndefined()
  expect(toHex(bytes.subarray(0, 17)).split('\n')[1]).toBe('000010  10')
})

test('events are parsed as browsers do, however they are cut', () => {
  const text =
    'data: a\r\n\r\n: comment\n\nevent: tick\rid: 7\rdata:b\rdata:  c\r\rretry: 5\nid\ndata\n\nevent: lost\n\ndata: unfinished'
  const events = [
    { event: 'message', id: '', data: 'a' },
    { event: 'tick', id: '7', data: 'b\n c' },
    { event: 'message', id: '', data: '' },
  ]
  for (const size of [1, 2, 3, 7, text.length]) {
    const stream = new EventStream()
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
      text.slice(index * size, (index + 1) * size),
    )
    expect(pieces.flatMap((piece) => stream.add(piece))).toEqual(events)
  }
  const stream = new EventStream()
  for (let piece = 0; piece < 100; piece++) stream.add(`data: ${'x'.repeat(1_000)}\n`)
  expect(stream.add('\n')[0]?.data.length).toBe(65_536)
})

test('of a streamed answer the last bytes and events are kept, and all are counted', () => {
  const answer = new StreamedAnswer()
  answer.add({ ms: 1, uploaded: 5 })
  answer.add({ ms: 2, status: 200, headers: { 'content-type': 'text/plain' } })
  const piece = Uint8Array.from({ length: 1_000 }, (_, place) => place % 251)
  for (let ms = 3; ms < 203; ms++) answer.add({ ms, data: toBase64(piece) })
  expect(answer).toMatchObject({ bytes: 200_000, firstByteMs: 3, ms: 202, uploaded: 5, isOver: false })
  expect(answer.tail).toHaveLength(65_536)
  expect(answer.tail.at(-1)).toBe(piece.at(-1))
  answer.add({ ms: 300, problem: 'aborted' })
  expect(answer).toMatchObject({ isOver: true, problem: 'aborted', status: 200 })

  const events = new StreamedAnswer()
  events.add({ ms: 1, status: 200, headers: { 'content-type': 'text/event-stream' } })
  const smiley = new TextEncoder().encode('data: 😄\n\n')
  for (let ms = 2; ms < 252; ms++)
    for (const part of [smiley.subarray(0, 8), smiley.subarray(8)]) events.add({ ms, data: toBase64(part) })
  expect([events.eventCount, events.events?.length]).toEqual([250, 200])
  expect(events.events?.at(-1)).toEqual({ event: 'message', id: '', data: '😄', ms: 251, number: 250 })
})

test('numbers are short', () => {
  expect([0, 0.25, 12.34, 1_234, 12_345, 2e6].map(formatRate)).toEqual([
    '0',
    '0.25',
    '12.3',
    '1234',
    '12.3 k',
    '2 M',
  ])
  expect([undefined, 0.0123, 1.5, 999, 1_500].map(formatMs)).toEqual([
    '–',
    '12.3 µs',
    '1.5 ms',
    '999 ms',
    '1.5 s',
  ])
  expect([0, 1_023, 1_536, 5 * 1_024 ** 2].map(formatBytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '5 MiB'])
})

test('the last lines are kept, by number and by length', () => {
  const lines = new RecentLines()
  for (let line = 0; line < 1_500; line++) lines.add(`${line}`)
  expect([lines.all.length, lines.all[0], lines.all.at(-1)]).toEqual([1_000, '500', '1499'])
  lines.add('x'.repeat(999_999))
  expect(lines.all.map(({ length }) => length)).toEqual([999_999])
})

test('the API tells numbers, lines of the log by plug-in, and what a route answers', async () => {
  const { api, post, url } = await startWithAdmin([guest('log'), guest('moody')])
  await post('/log/log', 'spoken')
  const call = await api('POST', '/api/call', {
    method: 'POST',
    url: '/moody',
    headers: { 'x-request-id': 'from-the-console' },
    body: Buffer.from('T').toString('base64'),
  })
  expect(call).toMatchObject({
    status: 200,
    body: { status: 500, headers: { 'x-request-id': 'from-the-console' } },
  })
  expect(Buffer.from(call.body.body, 'base64').toString()).toContain('WASM_SERVE_GUEST_TRAP')
  expect(call.body.ms).toBeGreaterThan(0)

  expect((await api('GET', '/api/plugins/log/logs')).body).toMatchObject(
    ['info', 'warn', 'error'].map((level) => ({ level, msg: 'spoken', plugin: 'log' })),
  )
  const { body: lines } = await api('GET', '/api/plugins/moody/logs')
  expect(lines).toMatchObject([
    { reqId: 'from-the-console', code: 'WASM_SERVE_GUEST_TRAP', reason: 'unreachable' },
  ])
  expect((await api('GET', '/api/logs')).body).toHaveLength(4)
  expect((await api('GET', '/api/plugins/nobody/logs')).status).toBe(404)

  const { body: live } = await api('GET', '/api/live')
  expect(live).toMatchObject({ revision: 1, state: 'serving', url })
  expect(live.meters.find(({ route }: { route: string }) => route === '/moody')).toMatchObject({
    plugin: 'moody',
    outcomes: { trap: 1 },
    instances: 1,
  })
  for (const body of [{}, { url: 'moody' }, { url: '/', body: 'é' }, { url: '/', headers: { a: 1 } }])
    expect((await api('POST', '/api/call', body)).body.code).toBe('WASM_SERVE_ADMIN_REQUEST_INVALID')
  expect((await api('POST', '/api/call', { url: '/nowhere' })).body.status).toBe(404)
  const { paths } = (await api('GET', '/openapi.json')).body
  expect(Object.keys(paths)).toEqual(
    expect.arrayContaining(['/api/live', '/api/logs', '/api/call', '/api/streams', '/api/streams/{id}']),
  )
})
