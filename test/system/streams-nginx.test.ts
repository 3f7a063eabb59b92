import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { startNginxWith } from '../support/nginx.ts'
import { pluginFile } from '../support/pdk.ts'
import { listen } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'
import { describeWith } from '../support/tools.ts'

const HTTP_1_1 = 'proxy_http_version 1.1; proxy_set_header Connection "";'

/** By default nginx speaks HTTP/1.0, and buffers in both directions. */
const BUFFERED = [
  ['HTTP/1.0', ''],
  ['HTTP/1.1', HTTP_1_1],
] as const

const UNBUFFERED = [
  ['HTTP/1.0', 'proxy_buffering off;'],
  ['HTTP/1.1', `${HTTP_1_1} proxy_buffering off;`],
] as const

/** Starts nginx in front of a server. @returns the options of a request to it. */
async function proxyTo({ port }: { port: number }, directives: string): Promise<RequestOptions> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-nginx-'))
  const { socketPath, stop } = await startNginxWith(
    folder,
    `client_max_body_size 0; location / { proxy_pass http://127.0.0.1:${port}; ${directives} }`,
  )
  onTestFinished(async () => {
    await stop()
    rmSync(folder, { recursive: true })
  })
  return { socketPath, agent: false, headers: { host: 'a' } }
}

/** Sends a request. @param body - undefined: GET. */
async function ask(to: RequestOptions, body?: string | Buffer): Promise<IncomingMessage> {
  const sent = request({ ...to, method: body === undefined ? 'GET' : 'POST' }).end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return answer
}

/** Reads until a text has come. */
async function readUntil(answer: IncomingMessage, wanted: string): Promise<string> {
  let all = ''
  while (!all.includes(wanted)) all += String((await once(answer, 'data'))[0])
  return all
}

const THREE: readonly Step[] = [
  ['sse', '{"data":1}'],
  ['wait', 30],
  ['sse', '{"data":2}'],
  ['wait', 30],
  ['sse', '{"data":3}'],
]
const THREE_SENT = 'data: 1\n\ndata: 2\n\ndata: 3\n\n'

/** After them the guest waits for its client. */
const OPEN: readonly Step[] = [...THREE, ['wait', 60_000]]

const HEAD = '{"headers":{"content-type":"text/event-stream","x-accel-buffering":"no"}}'

describeWith(['nginx'], () => {
  test.each([
    ...UNBUFFERED.map(
      ([version, directives]) => [`proxy_buffering off, ${version}`, directives, OPEN] as const,
    ),
    ...BUFFERED.map(
      ([version, directives]) =>
        [`the header x-accel-buffering, ${version}`, directives, [['start', HEAD], ...OPEN]] as const,
    ),
  ])('events pass nginx one by one with %s, and a client that leaves nginx is noticed', async (_how, directives, steps) => {
    const server = await serveSteps(steps)
    const answer = await ask(await proxyTo(server, directives))
    expect(answer.headers['content-type']).toBe('text/event-stream')
    expect(await readUntil(answer, 'data: 3\n\n')).toBe(THREE_SENT) // the guest still waits
    answer.destroy()
    expect((await server.codes(steps.length)).at(-1)).toBe(-1)
    await server.line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
  })

  test('heartbeats keep nginx from ending events that are rare', async () => {
    const steps: Step[] = [
      ['sse', '{"data":1}'],
      ['wait', 1_500],
      ['sse', '{"data":2}'],
    ]
    const server = await serveSteps(steps, { sseHeartbeatMs: 20 })
    const directives = `${HTTP_1_1} proxy_buffering off; proxy_read_timeout 1s;`
    const all = await text(await ask(await proxyTo(server, directives)))
    expect(all.replaceAll(':\n\n', '')).toBe('data: 1\n\ndata: 2\n\n')
  })

  test.each(BUFFERED)('events that nginx buffers have the right bytes (%s)', async (_version, directives) => {
    const server = await serveSteps(THREE)
    expect(await text(await ask(await proxyTo(server, directives)))).toBe(THREE_SENT)
  })

  test.each([
    ...BUFFERED,
    ...UNBUFFERED,
  ])('a download that a client reads slowly has the right bytes (%s, %s)', async (_version, directives) => {
    const steps: Step[] = [['start', ''], { repeat: 200, steps: [['write zeros', 65_536]] }, ['write', 'end']]
    const server = await serveSteps(steps, { outputLimit: 0 })
    const answer = await ask(await proxyTo(server, directives))
    answer.pause()
    await new Promise((resolve) => setTimeout(resolve, 50)) // so that nginx and the server fill their buffers
    const body = await buffer(answer)
    expect([
      body.length,
      body.subarray(0, -3).every((byte) => byte === 0),
      String(body.subarray(-3)),
    ]).toEqual([200 * 65_536 + 3, true, 'end'])
  })

  test.each([
    ...BUFFERED,
    ...UNBUFFERED,
  ])('an answer that breaks off does so behind nginx, too (%s, %s)', async (_version, directives) => {
    const server = await serveSteps([['start', ''], ['write', 'half'], ['flush'], ['error', 'no']])
    const answer = await ask(await proxyTo(server, directives))
    await expect(text(answer)).rejects.toMatchObject({ code: 'ECONNRESET' })
  })

  test.each([
    'proxy_request_buffering on;',
    'proxy_request_buffering off;',
  ])('an upload has the right bytes with %s', async (directives) => {
    const route = {
      plugin: pluginFile('streams-rust', 'streams.wasm'),
      function: 'hash',
      bodyLimit: 0,
      workers: 1,
    }
    const to = await proxyTo(await listen(route), HTTP_1_1 + directives)
    const body = Buffer.from(Array.from({ length: 500_000 }, (_, i) => `line ${i}\n`).join(''))
    const digest = createHash('sha256').update(body).digest('hex')
    expect(await text(await ask(to, body))).toBe(`${digest} ${body.length}\n`)
  })

  test('with proxy_request_buffering off the guest reads while the client sends, and sees that it leaves', async () => {
    const server = await serveSteps([
      ['read', 10],
      ['read', 10],
      ['read', 10],
    ])
    const sent = request({
      ...(await proxyTo(server, `${HTTP_1_1} proxy_request_buffering off;`)),
      method: 'POST',
    })
    sent.on('error', () => undefined)
    sent.write('a')
    expect(await server.codes(1)).toEqual([1])
    sent.write('bc')
    expect(await server.codes(2)).toEqual([1, 2])
    sent.destroy()
    expect(await server.codes(3)).toEqual([1, 2, -1])
  })

  // nginx sends no more of a body after an answer has begun: it has to be small, or read before.
  test('a guest that answers while it reads gets a part of a large body from nginx, and its answer breaks off', async () => {
    const echo = { plugin: guest('stream'), function: 'echo', bodyLimit: 0, outputLimit: 0, workers: 1 }
    const server = await listen({ ...echo, streamIdleMs: 200 })
    const to = await proxyTo(server, HTTP_1_1)
    const small = Buffer.alloc(10_000, 'small')
    expect((await buffer(await ask(to, small))).equals(small)).toBe(true)
    const answer = await ask(to, Buffer.alloc(20_000_000, 'large'))
    await expect(buffer(answer)).rejects.toMatchObject({ code: 'ECONNRESET' })
  })
})
