import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { core, tracing } from '@opentelemetry/sdk-node'
import { expect, onTestFinished, test } from 'vitest'
import { openHttp } from '../../src/contract/http.ts'
import { start } from '../support/cli-process.ts'
import { openCollector, type SentSpan } from '../support/collector.ts'
import { answerOf, inputOf } from '../support/contract.ts'
import { file, guest } from '../support/guest.ts'
import { serve } from '../support/serve.ts'
import { post } from '../support/socket.ts'
import { streamGuest } from '../support/stream-guest.ts'

/** What OTLP has for `SpanKind.SERVER`. */
const SERVER_IN_OTLP = 2

/** A trace that somebody else has begun. */
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`

/** The command with these routes and a collector of its spans; `ended` has them all. */
async function startTraced(config: object, env: NodeJS.ProcessEnv = {}) {
  const collector = await openCollector()
  const path = file('traced.json', JSON.stringify({ port: 0, otel: true, ...config }))
  const server = start(['-c', path], {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    ...env,
  })
  const url = await server.listening()
  const ended = async () => {
    server.child.kill('SIGTERM')
    expect(await server.ended).toMatchObject({ code: 0 })
    return collector.spans
  }
  return { collector, url, ended }
}

test.each([
  ['on the event loop', 'inline', {}],
  ['in threads', 'workers', { workers: 1 }],
])('a request has a span, and the call below it another, in the trace of the client: %s', async (_, engine, options) => {
  const { url, ended } = await startTraced({
    routes: [{ plugin: guest('moody'), url: '/moods/:id', ...options }],
  })
  const ask = async (body: string, headers = {}) =>
    (await fetch(`${url}/moods/7`, { method: 'POST', body, headers })).status
  expect(await ask('a', { traceparent: TRACEPARENT, 'x-request-id': 'mine' })).toBe(200)
  const [request, call, ...others] = inOrder(await ended())
  expect(others).toEqual([])
  expect(request).toMatchObject({
    name: 'POST /moods/:id',
    kind: SERVER_IN_OTLP,
    traceId: TRACE,
    parentSpanId: PARENT,
    isError: false,
    service: 'wasm-serve',
    attributes: {
      'http.route': '/moods/:id',
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'wasm_serve.plugin': 'moody',
      'wasm_serve.request_id': 'mine',
    },
  })
  expect(call).toMatchObject({
    name: 'moody answer',
    traceId: TRACE,
    parentSpanId: request?.spanId,
    isError: false,
    attributes: {
      'http.route': '/moods/:id',
      'wasm_serve.plugin': 'moody',
      'wasm_serve.digest': expect.stringMatching(/^[\da-f]{12}$/),
      'wasm_serve.function': 'answer',
      'wasm_serve.engine': engine,
      'wasm_serve.outcome': 'ok',
    },
  })
})

test('calls that fail say how; what the guest says itself is no error of the call', async () => {
  const { url, ended } = await startTraced({ routes: [{ plugin: guest('moody'), timeoutMs: 50 }] })
  for (const body of ['E', 'T', 'L']) await fetch(url, { method: 'POST', body })
  const calls = (await ended()).filter(({ name }) => name === 'moody answer')
  expect(calls.map(({ isError, attributes }) => [attributes['wasm_serve.outcome'], isError])).toEqual([
    ['guest_error', false],
    ['trap', true],
    ['timeout', true],
  ])
})

test('the span of a request has the status and the failure of its answer; without an answer it has no status', async () => {
  const { url, ended } = await startTraced({
    routes: [
      { plugin: guest('moody') },
      { plugin: guest('loop'), url: '/loop', workers: 1, timeoutMs: 1_000 },
    ],
  })
  const statuses: number[] = []
  for (const body of ['a', 'E', 'T']) statuses.push((await fetch(url, { method: 'POST', body })).status)
  const client = connect(Number(new URL(url).port), '127.0.0.1')
  client.write(post('a', '', '/loop'), () => client.resetAndDestroy())
  await once(client, 'close')
  const spans = await ended()
  const requests = (name: string) => spans.filter((span) => span.name === name)
  expect(
    requests('POST /').map(({ isError, attributes }) => [attributes['http.response.status_code'], isError]),
  ).toEqual(statuses.map((status) => [status, status !== 200]))
  expect(requests('POST /loop')).toHaveLength(1)
  expect(requests('POST /loop')[0]?.attributes).not.toHaveProperty('http.response.status_code')
})

test('the spans of a streamed exchange last as long as it does, with its first bytes as events', async () => {
  const { url, ended } = await startTraced({ routes: [{ plugin: guest('stream'), function: 'echo' }] })
  const sent = request(url, { method: 'POST' })
  sent.write('1')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  await once(answer, 'data')
  const since = performance.now()
  for (let round = 0; round < 20; round++) {
    sent.write('2')
    await once(answer, 'data')
  }
  const ms = performance.now() - since
  sent.end()
  expect(await text(answer)).toBe('')
  const spans = inOrder(await ended())
  expect(spans.map(({ name, events, isError }) => [name, events, isError])).toEqual([
    ['POST /', [], false],
    ['stream echo', ['wasm_serve.request.first_byte', 'wasm_serve.response.first_byte'], false],
  ])
  for (const span of spans) expect(span.ms).toBeGreaterThanOrEqual(ms)
})

test('a streamed answer that was broken off is an error of its request', async () => {
  const { url, ended } = await startTraced({
    routes: [{ plugin: file('late.wasm', streamGuest(['start', ''], ['write', 'a'], ['flush'], ['trap'])) }],
  })
  await expect(fetch(url, { method: 'POST' }).then((answer) => answer.text())).rejects.toThrow('terminated')
  expect((await ended()).map(({ isError }) => isError)).toEqual([true, true])
})

test('what a guest asks other servers is part of its call', async () => {
  const upstream = await openCollector()
  const { url, ended } = await startTraced({
    routes: [{ plugin: guest('fetch'), function: 'fetch', allowedHosts: ['127.0.0.1'] }],
  })
  const ask = async (headers: object) =>
    fetch(url, { method: 'POST', body: JSON.stringify({ url: upstream.url, headers }) })
  await ask({})
  await ask({ TraceParent: TRACEPARENT })
  const spans = await ended()
  const calls = spans.filter(({ name }) => name === 'fetch fetch')
  expect(upstream.asked.map(({ traceparent }) => traceparent)).toEqual([
    `00-${calls[0]?.traceId}-${calls[0]?.spanId}-01`,
    TRACEPARENT,
  ])
})

test('a guest reads the context of its request, whose span is the parent of what it does', async () => {
  const exporter = keepSpans()
  propagation.setGlobalPropagator(new core.W3CTraceContextPropagator())
  onTestFinished(() => propagation.disable())
  const app = await serve(inputOf(openHttp({})), { otel: true })
  const headersOf = async (headers = {}) => {
    exporter.reset()
    const reply = await app.inject({ method: 'POST', url: '/', headers, payload: 'a' })
    const request = exporter.getFinishedSpans().find(({ kind }) => kind === SpanKind.SERVER)
    return { ...reply.json().headers, spanContext: request?.spanContext() }
  }
  const continued = await headersOf({ traceparent: TRACEPARENT, tracestate: 'a=1' })
  expect(continued.traceparent).toBe(`00-${TRACE}-${continued.spanContext?.spanId}-01`)
  expect(continued.tracestate).toBe('a=1')
  const begun = await headersOf()
  expect(begun.traceparent).toBe(`00-${begun.spanContext?.traceId}-${begun.spanContext?.spanId}-01`)
  expect(begun.spanContext?.traceId).not.toBe(TRACE)
})

test.each([
  [499, 'UNSET'],
  [500, 'ERROR'],
  [503, 'ERROR'],
] as const)('the span of a request to which the guest answers %i has the status %s', async (status, name) => {
  const exporter = keepSpans()
  const app = await serve(answerOf(openHttp({})), { otel: true })
  const payload = JSON.stringify({ status })
  expect((await app.inject({ method: 'POST', url: '/', payload })).statusCode).toBe(status)
  const request = exporter.getFinishedSpans().find(({ kind }) => kind === SpanKind.SERVER)
  expect(request?.status.code).toBe(SpanStatusCode[name])
})

test('a URL that no route has is a span too, and what is not sampled is not sent', async () => {
  const { url, ended } = await startTraced(
    { routes: [{ plugin: guest('echo') }] },
    { OTEL_SERVICE_NAME: 'mine' },
  )
  await fetch(`${url}/nowhere`)
  const unsampled = { traceparent: `00-${TRACE}-${PARENT}-00` }
  expect((await fetch(url, { method: 'POST', body: 'a', headers: unsampled })).status).toBe(200)
  const spans = await ended()
  expect(
    spans.map(({ name, service, attributes }) => [name, service, attributes['http.response.status_code']]),
  ).toEqual([['GET', 'mine', 404]])
})

test('a collector that is not there changes no answer, and does not keep the server from ending', async () => {
  const { url, ended } = await startTraced(
    { routes: [{ plugin: guest('echo') }] },
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' },
  )
  expect(await (await fetch(url, { method: 'POST', body: 'a' })).text()).toBe('a')
  expect(await ended()).toEqual([])
})

/** Keeps the spans of this process, until the test ends. */
function keepSpans() {
  const exporter = new tracing.InMemorySpanExporter()
  const spanProcessors = [new tracing.SimpleSpanProcessor(exporter)]
  trace.setGlobalTracerProvider(new tracing.BasicTracerProvider({ spanProcessors }))
  onTestFinished(() => trace.disable())
  return exporter
}

/** Parents before their children. */
function inOrder(spans: readonly SentSpan[]): SentSpan[] {
  const isRoot = ({ parentSpanId }: SentSpan) => !spans.some(({ spanId }) => spanId === parentSpanId)
  return [...spans].sort((a, b) => Number(isRoot(b)) - Number(isRoot(a)))
}
