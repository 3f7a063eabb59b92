import { expect, test } from 'vitest'
import { METRICS, type Metric } from '../../src/admin/metric-list.ts'
import { renderMetrics } from '../../src/admin/metrics.ts'
import { Histogram } from '../../src/observe/counters.ts'
import { type EngineStats, NO_STATS } from '../../src/observe/engine-stats.ts'
import { Meters, type MeterView, type StatsSource } from '../../src/observe/metrics.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { listenBoth } from '../support/admin.ts'
import { file, guest } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { open, post } from '../support/socket.ts'
import { streamGuest } from '../support/stream-guest.ts'

/** Values by name and labels, as Prometheus reads them. */
async function scrape(adminUrl: string): Promise<Map<string, number>> {
  const answer = await fetch(`${adminUrl}/metrics`)
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const lines = (await answer.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

/** The only value of a metric with these labels, besides those of the route. */
function valueIn(metrics: Map<string, number>, name: string, labels = ''): number | undefined {
  const found = [...metrics].filter(([key]) => key.startsWith(`${name}{`) && key.endsWith(`${labels}}`))
  expect(found.length).toBeLessThanOrEqual(1)
  return found[0]?.[1]
}

/** An engine with these stats. */
function fakeEngine(stats: Partial<EngineStats> = {}): StatsSource {
  return { stats: { ...NO_STATS, ...stats } }
}

async function send(url: string, bodies: readonly string[]): Promise<number[]> {
  return Promise.all(bodies.map(async (body) => (await fetch(url, { method: 'POST', body })).status))
}

test.each([
  ['on the event loop', {}],
  ['in threads', { workers: 1 }],
])('calls are counted by outcome, with how long they waited and ran: %s', async (_, options) => {
  const server = await listenBoth([{ plugin: guest('moody'), url: '/moods', ...options }])
  expect(await send(`${server.url}/moods`, ['a', 'b', 'E', 'T'])).toEqual([200, 200, 409, 500])
  const metrics = await scrape(server.adminUrl)
  const outcomes = ['ok', 'guest_error', 'trap', 'timeout', 'error']
  expect(outcomes.map((each) => valueIn(metrics, 'wasm_serve_calls_total', `,outcome="${each}"`))).toEqual([
    2, 1, 1, 0, 0,
  ])
  expect(valueIn(metrics, 'wasm_serve_guest_seconds_count')).toBe(4)
  expect(valueIn(metrics, 'wasm_serve_guest_seconds_bucket', ',le="+Inf"')).toBe(4)
  expect(valueIn(metrics, 'wasm_serve_queue_wait_seconds_count')).toBe(4)
  expect(valueIn(metrics, 'wasm_serve_restarts_total')).toBe(1)
  expect(valueIn(metrics, 'wasm_serve_queue_length')).toBe(0)
  expect(valueIn(metrics, 'wasm_serve_guest_memory_bytes')).toBeGreaterThanOrEqual(65_536)
  expect(valueIn(metrics, 'wasm_serve_kernel_memory_bytes')).toBeGreaterThan(0)
  expect([...metrics.keys()].find((key) => key.startsWith('wasm_serve_instances'))).toMatch(
    /^wasm_serve_instances\{route="\/moods",plugin="moody",digest="[\da-f]{12}"\}$/,
  )
  expect(metrics.get('wasm_serve_ready')).toBe(1)
  expect(metrics.get('wasm_serve_routes')).toBe(1)
  expect(metrics.has('nodejs_eventloop_lag_p99_seconds')).toBe(true)
})

test('guests that run too long are counted, and their time with them', async () => {
  const server = await listenBoth([{ plugin: guest('moody'), timeoutMs: 50 }])
  expect(await send(server.url, ['L'])).toEqual([504])
  const metrics = await scrape(server.adminUrl)
  expect(valueIn(metrics, 'wasm_serve_calls_total', ',outcome="timeout"')).toBe(1)
  expect(valueIn(metrics, 'wasm_serve_timeouts_total')).toBe(1)
  expect(valueIn(metrics, 'wasm_serve_restarts_total')).toBe(1)
  expect(valueIn(metrics, 'wasm_serve_guest_seconds_sum')).toBeGreaterThan(0.049)
})

test('calls that wait and calls that are refused are told while that is so', async () => {
  const server = await listenBoth([
    { plugin: guest('moody'), workers: 1, spareWorkers: 0, maxQueue: 1, timeoutMs: 1_000 },
  ])
  const port = Number(new URL(server.url).port)
  const looping = await open(port)
  looping.send(post('L'))
  for (let running = 0; running === 0; ) {
    running = valueIn(await scrape(server.adminUrl), 'wasm_serve_running_calls') ?? 0
  }
  const waiting = await open(port)
  waiting.send(post('a'))
  for (let length = 0; length === 0; ) {
    const metrics = await scrape(server.adminUrl)
    length = valueIn(metrics, 'wasm_serve_queue_length') ?? 0
    if (valueIn(metrics, 'wasm_serve_timeouts_total') === 1) break // it had its turn
  }
  expect(await waiting.answer()).toMatchObject({ status: 200 })
})

test('requests that reach no guest are no calls', async () => {
  const server = await listenBoth([{ plugin: guest('echo'), bodyLimit: 4 }])
  expect(await send(server.url, ['12345'])).toEqual([413])
  expect((await fetch(`${server.url}/nowhere`)).status).toBe(404)
  const metrics = await scrape(server.adminUrl)
  const all = [...metrics].filter(([key]) => key.startsWith('wasm_serve_calls_total'))
  expect(all.map(([, value]) => value)).toEqual(all.map(() => 0))
})

test('calls with hooks and answers that break the contract are counted too', async () => {
  const broken = {
    name: 'broken',
    input: () => new Uint8Array(),
    answer: () => {
      throw new Error('no')
    },
  }
  const server = await listenBoth([
    { plugin: guest('echo'), url: '/hooked', onResult: () => undefined },
    { plugin: guest('echo'), url: '/http', contract: 'http' },
    { plugin: guest('echo'), url: '/broken', contract: broken },
  ])
  expect(await send(`${server.url}/hooked`, ['a'])).toEqual([200])
  expect(await send(`${server.url}/http`, ['a'])).toEqual([502])
  expect(await send(`${server.url}/broken`, ['a'])).toEqual([500])
  const metrics = await scrape(server.adminUrl)
  const counted = [...metrics].filter(([key, value]) => key.startsWith('wasm_serve_calls_total') && value > 0)
  expect(
    counted.map(([key]) => /route="([^"]+)".*outcome="(\w+)"/.exec(key)?.slice(1).join(' ')).sort(),
  ).toEqual(['/broken error', '/hooked ok', '/http contract_broken'])
})

test('what guests send to other servers is counted', async () => {
  const server = await listenBoth([
    { plugin: guest('fetch'), function: 'fetch', url: '/fetch', allowedHosts: ['127.0.0.1'] },
    { plugin: guest('fetch'), function: 'fetch', url: '/refused', allowedHosts: ['other.example'] },
    { plugin: guest('requests'), function: 'size', url: '/size', allowedHosts: ['127.0.0.1'], workers: 1 },
  ])
  const request = JSON.stringify({ url: `${server.adminUrl}/readyz` })
  const nowhere = JSON.stringify({ url: 'http://127.0.0.1:1/' })
  await send(`${server.url}/fetch`, [request])
  await send(`${server.url}/refused`, [request])
  await send(`${server.url}/size`, [request, request, nowhere, JSON.stringify({ url: 'http://localhost/' })])
  const metrics = await scrape(server.adminUrl)
  expect(countedIn(metrics, 'wasm_serve_outbound_requests_total', 'result')).toEqual([
    '/fetch 2xx 1',
    '/refused refused 1',
    '/size 2xx 2',
    '/size failed 1',
    '/size refused 1',
  ])
})

test.each([
  ['on the event loop', {}],
  ['in threads', { workers: 1 }],
])('what guests do with the store is counted: %s', async (_, options) => {
  const kv = file('kv.wasm', kvGuest('get', 'set'))
  const server = await listenBoth([
    { plugin: kv, function: 'get', url: '/get', ...options },
    { plugin: kv, function: 'set', url: '/set', kv: { access: 'read' }, ...options },
  ])
  await send(`${server.url}/get`, ['some-key'])
  await send(`${server.url}/get`, ['some-key'])
  await send(`${server.url}/set`, ['some-keyvalue'])
  const metrics = await scrape(server.adminUrl)
  expect(countedIn(metrics, 'wasm_serve_kv_operations_total', 'operation', 'result')).toEqual([
    '/get get ok 2',
    '/set set forbidden 1',
  ])
})

/** Route, other labels and values of a metric. */
function countedIn(metrics: Map<string, number>, name: string, ...labels: string[]): string[] {
  const valueOfLabel = (key: string, label: string) => new RegExp(`\\b${label}="([^"]*)"`).exec(key)?.[1]
  return [...metrics]
    .filter(([key]) => key.startsWith(`${name}{`))
    .map(([key, value]) =>
      [...['route', ...labels].map((label) => valueOfLabel(key, label)), value].join(' '),
    )
    .sort()
}

test('each metric of the table is there, once there is something to tell', async () => {
  const server = await listenBoth([{ plugin: guest('echo') }])
  const text = await (await fetch(`${server.adminUrl}/metrics`)).text()
  for (const { name, type } of METRICS) expect(text).toContain(`# TYPE ${name} ${type}\n`)
})

test('names, texts and numbers are rendered as the text format of Prometheus has them', () => {
  const values = new Histogram([1, 2_500])
  for (const value of [1, 2, 3_000]) values.observe(value)
  const labels = { route: 'a"b\\c\nd', plugin: 'é', digest: '' }
  const metrics: Metric[] = [
    { type: 'gauge', name: 'none', help: 'a\\b\n"c"', labels: [], read: () => [[{}, 0.5]] },
    { type: 'counter', name: 'empty_total', help: 'nothing', labels: ['x'], read: () => [] },
    {
      type: 'histogram',
      name: 'h_seconds',
      help: 'times',
      labels: ['route'],
      read: () => [[labels, values]],
    },
  ]
  const own = {
    meters: new Meters(),
    served: { state: 'serving', server: { url: undefined, routes: [] } },
    version: '',
  } as const
  const all = String.raw`route="a\"b\\c\nd",plugin="é",digest=""`
  expect(renderMetrics(metrics, own)).toBe(
    [
      String.raw`# HELP none a\\b\n"c"`,
      '# TYPE none gauge',
      'none 0.5',
      '',
      '# HELP empty_total nothing',
      '# TYPE empty_total counter',
      '',
      '# HELP h_seconds times',
      '# TYPE h_seconds histogram',
      `h_seconds_bucket{${all},le="0.001"} 1`,
      `h_seconds_bucket{${all},le="2.5"} 2`,
      `h_seconds_bucket{${all},le="+Inf"} 3`,
      `h_seconds_sum{${all}} 3.003`,
      `h_seconds_count{${all}} 3`,
      '',
    ].join('\n'),
  )
})

test('a client chooses no label', async () => {
  const server = await listenBoth([{ plugin: guest('echo'), url: '/a/:id', method: '*' }])
  const before = await scrape(server.adminUrl)
  for (let id = 0; id < 20; id++) await fetch(`${server.url}/a/${id}?x=${id}`, { method: 'PUT', body: 'x' })
  const own = (metrics: Map<string, number>) =>
    [...metrics.keys()].filter((key) => key.startsWith('wasm_serve'))
  expect(own(await scrape(server.adminUrl))).toEqual(own(before))
})

test('streamed exchanges are counted, with their bytes, first bytes and durations', async () => {
  const plugin = streamGuest(['read', 10], ['start', ''], ['write', 'abc'], ['flush'], ['wait', 20])
  const routes: RouteOptions[] = [
    { plugin, url: '/answers', function: 'run', workers: 1 },
    { plugin: guest('stream'), url: '/silent', function: 'swallow', workers: 1 },
  ]
  const server = await listenBoth(routes)
  for (const path of ['/answers', '/silent'])
    await (await fetch(server.url + path, { method: 'POST', body: '12345' })).text()
  const metrics = await scrape(server.adminUrl)
  const value = (name: string, route: string) =>
    [...metrics].find(([key]) => key.startsWith(`wasm_serve_stream_${name}{route="${route}"`))?.[1]
  const values = (route: string) =>
    ['exchanges_total', 'received_bytes_total', 'sent_bytes_total', 'first_byte_seconds_count'].map((name) =>
      value(name, route),
    )
  expect(values('/answers')).toEqual([1, 5, 3, 1])
  expect(values('/silent')).toEqual([1, 5, 0, 0])
  expect(value('duration_seconds_count', '/answers')).toBe(1)
  expect(value('duration_seconds_sum', '/answers')).toBeGreaterThanOrEqual(0.02)
  expect(value('first_byte_seconds_sum', '/answers')).toBeLessThan(
    value('duration_seconds_sum', '/answers') ?? 0,
  )
})

test('bytes that HEAD discards are neither counted nor limited', async () => {
  const plugin = streamGuest(['start', ''], ['write', 'abc'], ['flush'])
  const server = await listenBoth([{ plugin, method: 'HEAD', workers: 1, outputLimit: 2 }])
  expect((await fetch(server.url, { method: 'HEAD' })).status).toBe(200)
  const values = async () => {
    const streams = [...(await scrape(server.adminUrl))].filter(([key]) => key.includes('_stream_'))
    return ['exchanges_total', 'sent_bytes_total', 'broken_total', 'first_byte_seconds_count'].map(
      (name) => streams.find(([key]) => key.startsWith(`wasm_serve_stream_${name}`))?.[1],
    )
  }
  await expect.poll(values).toEqual([1, 0, 0, 0])
})

test('a histogram puts a value into the bucket whose bound is not below it', () => {
  const histogram = new Histogram([1, 2])
  for (const value of [0, 1, 1.5, 2, 3]) histogram.observe(value)
  expect([...histogram.counts]).toEqual([2, 2, 1])
  expect(histogram.sum).toBe(7.5)
})

test('a server that is reloaded for ever does not tell more and more', () => {
  const meters = new Meters()
  const engine = fakeEngine()
  for (let version = 0; version < 500; version++) {
    const meter = meters.of({ route: '/', plugin: 'p', digest: String(version) })
    meter.opened(engine)
    meter.count({ queueMs: undefined, guestMs: undefined }, 'ok')
    meter.closed(engine)
  }
  expect(meters.all.length).toBeLessThanOrEqual(101)
  expect(meters.all.reduce((sum, { outcomes }) => sum + outcomes.of('ok'), 0)).toBe(500)
  expect(meters.all.find(({ labels }) => labels.digest === 'other')?.outcomes.of('ok')).toBe(400)
})

test('of thousands of routes, the thousand that were called first have labels, and the others count together', () => {
  const meters = new Meters()
  const route = (n: number) => meters.of({ route: `/${n}`, plugin: 'p', digest: 'a' })
  const engines = Array.from({ length: 3_000 }, () => fakeEngine({ restarted: 1, waiting: 1 }))
  for (const [n, engine] of engines.entries()) route(n).opened(engine)
  expect(meters.all).toMatchObject([{ labels: { route: 'other' }, stats: { restarted: 3_000 } }])

  for (let n = 2_999; n >= 0; n--) route(n).count({ queueMs: 1, guestMs: 1 }, 'ok')
  const all = meters.all
  expect(all).toHaveLength(1_001)
  expect(all.find(({ labels }) => labels.route === '/2500')?.outcomes.of('ok')).toBe(1)
  expect(all.find(({ labels }) => labels.route === '/5')).toBeUndefined()
  expect(all.at(-1)).toMatchObject({
    labels: { route: 'other' },
    stats: { restarted: 2_000, waiting: 2_000 },
  })
  const sum = (of: (view: MeterView) => number) => meters.all.reduce((all, view) => all + of(view), 0)
  const calls = () => sum(({ outcomes }) => outcomes.of('ok'))
  const restarts = () => sum(({ stats }) => stats.restarted)
  expect([calls(), restarts()]).toEqual([3_000, 3_000])

  for (const [n, engine] of engines.entries()) route(n).closed(engine)
  expect([calls(), restarts()]).toEqual([3_000, 3_000])
  expect(meters.all).toHaveLength(101)
})

test('a version that comes back counts on, and what a closed one did is kept', () => {
  const meters = new Meters()
  const labels = { route: '/', plugin: 'p', digest: 'a' }
  const first = fakeEngine({ restarted: 2, waiting: 3 })
  meters.of(labels).opened(first)
  expect(meters.of(labels).stats).toMatchObject({ restarted: 2, waiting: 3 })
  meters.of(labels).closed(first)
  expect(meters.of(labels).stats).toMatchObject({ restarted: 2, waiting: 0 })
  meters.of({ ...labels }).opened(fakeEngine({ restarted: 1, waiting: 1 }))
  expect(meters.of(labels).stats).toMatchObject({ restarted: 3, waiting: 1 })
  expect(meters.all.length).toBe(1)
})
