import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { RouteOptions } from '../../src/config/options.ts'
import { openLog } from '../../src/log/log.ts'
import { ask, bystanderRoutes } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { serveHttp } from '../support/outbound.ts'
import { listenAll } from '../support/serve.ts'

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

async function listening(route: RouteOptions, log = openLog('silent')) {
  const running = await listenAll([route, ...bystanderRoutes()], {}, log)
  onTestFinished(() => running.drain())
  return running
}

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
