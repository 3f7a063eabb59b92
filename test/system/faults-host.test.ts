import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { ask, bystanderRoutes, expectWell } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { serveHttp } from '../support/outbound.ts'
import { listenAll } from '../support/serve.ts'
import { startServerProcess } from '../support/serve-process.ts'

/** What the host function of zoo.wat does, by the text that it is given. */
const FUNCTIONS = `const acts = {
  throws: () => { throw new Error('no') },
  'throws nothing': () => { throw undefined },
  'throws what has no text': () => { throw Object.create(null) },
  'throws what goes in circles': () => { const error = new Error('round'); error.cause = error; throw error },
  'throws what looks like ours': () => { throw Object.assign(new Error('x'), { code: 'WASM_SERVE_DEADLINE_EXCEEDED' }) },
  'returns a promise': () => Promise.resolve(0n),
  'returns a text': () => 'text',
  'waits for ever': () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  'never returns': () => { for (;;); },
  exits: () => process.exit(0),
  aborts: () => process.abort(),
  // In small pieces: large ones Node.js cannot refuse, and the process ends.
  'takes all memory': () => { for (const all = []; ; ) all.push(new Array(1e4).fill(0.5)) },
  'collects texts': () => { for (const all = []; ; ) all.push(String(all.length) + 'abcdefgh') },
  'collects what it parses': () => { for (const all = []; ; ) all.push(JSON.parse('{"a":[1,2,3],"b":{"c":"d"}}')) },
  'collects functions': () => { for (const all = []; ; ) { const { length } = all; all.push(() => length) } },
  'rejects later': () => void Promise.reject(new Error('later')),
  'throws later': () => void setTimeout(() => { throw new Error('later') }),
  'exits later': () => void setTimeout(() => process.exit(1)),
}
export default { env: { relay(context, input) {
  const act = acts[context.read(input).text().slice(2)]
  const returned = act?.()
  return returned === undefined ? input : returned
} } }`

let server: Awaited<ReturnType<typeof listenAll>>

beforeAll(async () => {
  const zoo = { plugin: guest('zoo'), functions: file('acts.mjs', FUNCTIONS) }
  server = await listenAll([
    { url: '/host', ...zoo, timeoutMs: 20_000 },
    { url: '/deadline', ...zoo, timeoutMs: 300 },
    { url: '/shared', ...zoo, vars: 'shared', workers: 2, timeoutMs: 300 },
    ...bystanderRoutes(),
  ])
})

afterAll(() => server.drain())

const TRAP = [500, 'WASM_SERVE_GUEST_TRAP'] as const
const LOST = [500, 'WASM_SERVE_WORKER_LOST'] as const
const DEADLINE = [504, 'WASM_SERVE_DEADLINE_EXCEEDED'] as const
const WELL = [200, undefined] as const

test.each([
  ['throws', '/host', ...TRAP],
  ['throws nothing', '/host', ...TRAP],
  ['throws what has no text', '/host', ...TRAP],
  ['throws what goes in circles', '/host', ...TRAP],
  ['throws what looks like ours', '/host', ...TRAP],
  ['returns a promise', '/host', ...TRAP],
  ['returns a text', '/host', ...TRAP],
  ['aborts', '/host', ...TRAP],
  ['waits for ever', '/deadline', ...DEADLINE],
  ['never returns', '/deadline', ...DEADLINE],
  ['exits', '/host', ...LOST],
  ['takes all memory', '/host', ...LOST],
  ['rejects later', '/host', ...WELL],
  ['throws later', '/host', ...WELL],
  ['exits later', '/host', ...WELL],
])('a host function that %s costs its own call only', async (act, path, status, code) => {
  for (let i = 0; i < 2; i++) {
    expect(await ask(server.url + path, `H ${act}`)).toMatchObject({ status, code })
    await expectWell(server.url, path)
  }
})

test.each([
  'takes all memory',
  'collects texts',
  'collects what it parses',
  'collects functions',
])('a host function that %s in two threads at once ends them, and not the process', async (act) => {
  const functions = file('acts.mjs', FUNCTIONS)
  const route: RouteOptions = { url: '/host', plugin: guest('zoo'), functions, workers: 2, timeoutMs: 50_000 }
  const { url } = await startServerProcess({ routes: [route, ...bystanderRoutes()] })
  for (let i = 0; i < 2; i++) {
    const lost = { status: LOST[0], code: LOST[1] }
    const outcomes = await Promise.all([ask(`${url}/host`, `H ${act}`), ask(`${url}/host`, `H ${act}`)])
    expect(outcomes).toMatchObject([lost, lost])
    await expectWell(url, '/host')
  }
})

test.runIf('Suspending' in WebAssembly)('an async host function that never settles is ended', async () => {
  const functions = file(
    'never.mjs',
    `export default { env: { async relay(context, input) {
      if (context.read(input).text() === 'H') await new Promise(() => undefined)
      return input
    } } }`,
  )
  const { url } = await listening({ url: '/zoo', plugin: guest('zoo'), functions, timeoutMs: 300 })
  for (let i = 0; i < 3; i++) {
    expect(await ask(`${url}/zoo`, 'H')).toMatchObject({ status: 504, code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    await expectWell(url, '/zoo')
  }
})

async function listening(route: RouteOptions, log = openLog('silent')) {
  const running = await listenAll([route, ...bystanderRoutes()], {}, log)
  onTestFinished(() => running.drain())
  return running
}

test('variables that are shared outlive the threads that set them', async () => {
  const set = 'S of all'
  expect(await ask(`${server.url}/shared`, set)).toMatchObject({ status: 200 })
  for (let i = 0; i < 2; i++) {
    const loops = [1, 2].map(() => ask(`${server.url}/shared`, 'L'))
    for (const { status } of await Promise.all(loops)) expect(status).toBe(504)
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(`${server.url}/shared`, 'U')))
    expect(answers.map(({ body }) => body)).toEqual(Array(20).fill(set))
  }
})

test('a log cannot be flooded, nor be made to send commands to a terminal', async () => {
  let written = ''
  const log = openLog('info', { terminal: { colours: false, write: (text) => (written += text) } })
  const functions = file('acts.mjs', FUNCTIONS)
  const { url } = await listening({ url: '/zoo', plugin: guest('zoo'), functions, timeoutMs: 300 }, log)
  const commands = 'C\x1b[2J\x07\x9b\u202e\r\nFATAL forged'
  expect(await ask(`${url}/zoo`, commands)).toMatchObject({ status: 200, body: commands })
  expect(await ask(`${url}/zoo`, 'V flood')).toMatchObject({ status: 504 })
  expect(written).toContain('forged')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(written).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^FATAL/m)
  expect(written.match(/V flood/g)?.length).toBe(100)
})

test.each([
  ['traps', 'bad-start'],
  ['never returns', 'start-loop'],
])('a plug-in whose start %s is refused in time', async (_how, name) => {
  const route = { url: '/bad', plugin: guest(name), workers: 1, startTimeoutMs: 300 }
  await expect(listenAll([route, ...bystanderRoutes()])).rejects.toMatchObject({
    code: 'WASM_SERVE_INSTANCE_START_FAILED',
  })
})

test.each([
  ['in threads', { workers: 1, maxWaitMs: 300 }],
  ['on the event loop', {}],
])('an instance that cannot be replaced %s puts its own route out of order only', async (_where, options) => {
  const { url } = await listening({ url: '/once', plugin: guest('start-once'), vars: 'shared', ...options })
  expect(await ask(`${url}/once`, 'a')).toMatchObject({ status: 200 })
  expect(await ask(`${url}/once`, 'T')).toMatchObject({ status: 500, code: 'WASM_SERVE_GUEST_TRAP' })
  for (let i = 0; i < 3; i++) {
    expect(await ask(`${url}/once`, 'b')).toMatchObject({
      status: 503,
      code: expect.stringMatching(/^WASM_SERVE_(INSTANCE_START_FAILED|QUEUE_SLOW|BREAKER_OPEN)$/),
    })
    await expectWell(url, '/threads')
  }
})

test('a guest that asks where it may not is told no, also by a way round, and goes on', async () => {
  const forbidden = await serveHttp((_request, response) => response.end('secret'))
  const allowed = await serveHttp((request, response) => {
    if (request.url === '/well') response.end('well')
    else response.writeHead(302, { location: `http://127.0.0.1:${forbidden.port}/` }).end()
  })
  const { url } = await listening({
    url: '/ask',
    plugin: guest('fetch'),
    function: 'fetch',
    allowedHosts: [`127.0.0.1:${allowed.port}`],
    httpErrors: 'status',
    timeoutMs: 20_000,
  })
  const send = (to: string) => ask(`${url}/ask`, JSON.stringify({ url: to, method: 'GET', headers: {} }))
  for (let i = 0; i < 3; i++) {
    for (const to of [`http://127.0.0.1:${forbidden.port}/`, `http://127.0.0.1:${allowed.port}/redirect`]) {
      const { status, body } = await send(to)
      expect([status, body]).toEqual([200, expect.stringMatching(/^.000WASM_SERVE_OUTBOUND_REFUSED/)])
    }
    expect(await send(`http://127.0.0.1:${allowed.port}/well`)).toMatchObject({
      status: 200,
      body: expect.stringMatching(/^.200well$/),
    })
  }
  expect(forbidden.accepted).toBe(0)
})

test('a guest that waits for a server that never answers is ended at its deadline, and its request with it', async () => {
  const origin = await serveHttp((request, response) => {
    if (request.url === '/well') response.writeHead(200, { connection: 'close' }).end('well')
  })
  const { url } = await listening({
    url: '/ask',
    plugin: guest('fetch'),
    function: 'fetch',
    allowedHosts: ['127.0.0.1'],
    timeoutMs: 200,
    workers: 2,
  })
  const send = (path: string) =>
    ask(
      `${url}/ask`,
      JSON.stringify({ url: `http://127.0.0.1:${origin.port}${path}`, method: 'GET', headers: {} }),
    )
  for (let i = 0; i < 5; i++) {
    const [silent, other] = await Promise.all([send('/silent'), send('/silent')])
    for (const each of [silent, other]) {
      expect(each).toMatchObject({ status: 504, code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
    }
    expect(await send('/well')).toMatchObject({ status: 200, body: expect.stringMatching(/^.200well$/) })
  }
  await origin.allClosed()
})
