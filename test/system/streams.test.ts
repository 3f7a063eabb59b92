import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { suspending } from '../../src/platform/missing-types.ts'
import { STREAMS_PER_THREAD } from '../../src/runtime/streaming.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

const UNLIMITED = { bodyLimit: 0, outputLimit: 0 }

test('a stream of events that is idle has comments if the route wants them', async () => {
  const steps = [
    ['sse', '{"data":"a"}'],
    ['wait', 60_000],
  ] as const
  const { url } = await serveSteps(steps, { sseHeartbeatMs: 5 })
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const answer = await fetch(url, { signal: abort.signal })
  let all = ''
  for await (const bytes of answer.body ?? []) {
    all += Buffer.from(bytes)
    if (all.includes('data: a\n\n:\n\n:\n\n')) break
  }
  // A busy machine may take longer than the interval until the first event.
  expect(all).toMatch(/^(:\n\n)*data: a\n\n(:\n\n)+$/)
})

test('a guest that dies after the start breaks the answer, which clients notice', async () => {
  const { url, line } = await serveSteps([['start', ''], ['write', 'half'], ['flush'], ['trap']])
  const answer = await fetch(url)
  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow('terminated')
  await line(({ level, code }) => level === 'error' && code === 'WASM_SERVE_GUEST_TRAP')
  await line(({ msg }) => msg.includes('aborted'))
})

test.each([
  ['--http1.1', 18], // partial file
  ['--http1.0', 56], // the connection was reset
] as const)('curl reports a broken answer: %s', async (version, exitCode) => {
  const { url } = await serveSteps([['start', ''], ['write', 'half'], ['flush'], ['error', 'no']])
  const curl = spawn('curl', ['-sS', version, url], { stdio: ['ignore', 'pipe', 'ignore'] })
  expect(await once(curl, 'close')).toEqual([exitCode, null])
})

test('before the start a failure has its own answer', async () => {
  const { url } = await serveSteps([
    ['read', 10],
    ['error', 'no'],
  ])
  const answer = await fetch(url, { method: 'POST', body: 'hi' })
  expect([answer.status, await answer.text()]).toEqual([409, 'no'])
})

test('waits do not count toward the deadline of a guest, and running does', async () => {
  const waits = await serveSteps(
    [
      ['wait', 300],
      ['start', ''],
    ],
    { timeoutMs: 100 },
  )
  expect((await fetch(waits.url)).status).toBe(200)
  expect(await waits.codes(2)).toEqual([0, 0])
  const spins = await serveSteps([['wait', 50], ['start', ''], ['spin']], { timeoutMs: 100 })
  const answer = await fetch(spins.url)
  await expect(answer.text()).rejects.toThrow('terminated')
  await spins.line(({ code }) => code === 'WASM_SERVE_DEADLINE_EXCEEDED')
})

test('a guest that only asks meets its deadline', async () => {
  const { url, line } = await serveSteps([{ repeat: 100_000, steps: [['start', 'x']] }], {
    timeoutMs: 100,
    logRate: 1,
  })
  expect((await fetch(url)).status).toBe(504)
  await line(({ code }) => code === 'WASM_SERVE_DEADLINE_EXCEEDED')
})

test('an exchange has a limit of time', async () => {
  const steps = [['wait', 60_000], ['gone'], ['error', 'hidden']] as const
  const { url, codes } = await serveSteps(steps, { streamTimeoutMs: 50 })
  const answer = await fetch(url)
  expect([answer.status, JSON.parse(await answer.text()).code]).toEqual([504, 'WASM_SERVE_STREAM_TIMEOUT'])
  expect(await codes(2)).toEqual([-1, 1])
})

test('a client that sends nothing while the guest reads gets 408', async () => {
  const { port, codes } = await serveSteps(
    [
      ['read', 100],
      ['read', 100],
    ],
    { streamIdleMs: 50 },
  )
  const received = await raw(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf', (all) =>
    all.includes('WASM_SERVE_REQUEST_TIMEOUT'),
  )
  expect(received).toMatch(/^HTTP\/1\.1 408 /)
  expect(await codes(2)).toEqual([4, -1])
})

test('the time of a client that sends nothing is not extended by comments among events', async () => {
  const { port, line } = await serveSteps(
    [
      ['sse', '{"data":"a"}'],
      ['read', 100],
      ['read', 100],
    ],
    { streamIdleMs: 100, sseHeartbeatMs: 10 },
  )
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.resume()
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
  await line(({ code }) => code === 'WASM_SERVE_REQUEST_TIMEOUT')
})

test('the time limit for requests does not apply to a body that a guest reads', async () => {
  const steps = [
    ['read', 1],
    ['read', 9],
    ['start', ''],
  ] as const
  const { port, codes, line } = await serveSteps(steps, {}, { requestTimeoutMs: 100, headersTimeoutMs: 100 })
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na')
  await line(({ msg }) => msg === '1')
  await new Promise((resolve) => setTimeout(resolve, 400)) // longer than the limit
  socket.write('b')
  expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /)
  expect(await codes(3)).toEqual([1, 1, 0])
})

test('a guest whose client has gone sees it, and is ended after a grace', async () => {
  const steps = [
    ['start', ''],
    ['flush'],
    ['wait', 60_000],
    ['gone'],
    ['write', 'x'],
    ['flush'],
    ['spin'],
  ] as const
  const { port, codes, line } = await serveSteps(steps, { timeoutMs: 60_000 })
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(socket, 'data')
  socket.resetAndDestroy()
  await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
  expect(await codes(6)).toEqual([0, 0, -1, 1, 0, -1])
})

test('a client of HEAD that closes its connection is noticed, although nothing is sent to it', async () => {
  const steps: Step[] = [['start', ''], { repeat: 10_000, steps: [['wait', 10], ['write', 'x'], ['flush']] }]
  const { port, line } = await serveSteps(steps)
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.write('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(socket, 'data')
  socket.end()
  await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
})

test('a client of events that closes its connection is noticed, without an event', async () => {
  const { port, codes } = await serveSteps([
    ['sse', '{"data":"a"}'],
    ['wait', 60_000],
  ])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(socket, 'data')
  socket.destroy()
  expect(await codes(2)).toEqual([0, -1])
})

test('a client that vanishes in its body ends the read', async () => {
  const { port, codes, line } = await serveSteps([
    ['read', 100],
    ['read', 100],
    ['read', 100],
  ])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf')
  await line(({ msg }) => msg === '4')
  socket.resetAndDestroy()
  await line(({ msg }) => msg === '-1')
  expect(await codes(3)).toEqual([4, -1, -1])
})

test('more streams than threads wait, and then get 503 with the limit', async () => {
  const { url } = await serveSteps(
    [
      ['start', ''],
      ['wait', 60_000],
    ],
    { maxWaitMs: 1_000 },
  )
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const limit = suspending ? STREAMS_PER_THREAD : 1
  for (let open = 0; open < limit; open++) await fetch(url, { signal: abort.signal })
  const answer = await fetch(url)
  expect([answer.status, JSON.parse(await answer.text())]).toMatchObject([
    503,
    { code: 'WASM_SERVE_STREAMS_FULL', detail: expect.stringContaining(`${limit} streams`) },
  ])
})

test.each([
  16_384, 262_144,
])('a client that does not read stops the guest (buffer %i)', async (streamBuffer) => {
  const steps: Step[] = [['start', ''], { repeat: 1_000, steps: [['write zeros', 65_536]] }]
  const { port, codes } = await serveSteps(steps, { ...UNLIMITED, streamBuffer })
  const socket = connect({ port, host: '127.0.0.1' }).pause()
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await codes(1)
  let before = -1
  while (before !== (await codes()).length) {
    before = (await codes()).length
    await new Promise((resolve) => setTimeout(resolve, 100)) // until nothing changes
  }
  expect(before).toBeLessThan(200) // the rest is in the buffers of the system
})

test('a request behind a stream is answered after it', async () => {
  const { port } = await serveSteps(
    [['start', ''], ['write', 'a'], ['flush'], ['wait', 50], ['write', 'b']],
    { workers: 2 },
  )
  const received = await raw(
    port,
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2),
    (all) => all.split('0\r\n\r\n').length === 3,
  )
  const bodies = received
    .split('HTTP/1.1 200 OK')
    .map((answer) => answer.split('\r\n\r\n').slice(1).join('|'))
  expect(bodies).toEqual(['', '1\r\na\r\n1\r\nb\r\n0|', '1\r\na\r\n1\r\nb\r\n0|'])
})

test('a client that closes its side after the request gets the whole answer', async () => {
  const { port } = await serveSteps([
    ['wait', 50],
    ['start', ''],
    ['write', 'a'],
    ['flush'],
    ['wait', 50],
    ['write', 'b'],
  ])
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  let all = ''
  for await (const piece of socket) all += piece
  expect(all).toMatch(/1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/)
})

test('a body that no guest reads keeps its connection for a second at most', async () => {
  const { port } = await serveSteps([
    ['start', ''],
    ['write', 'done'],
  ])
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  const sending = setInterval(() => socket.write('1\r\nx\r\n'), 20)
  onTestFinished(() => clearInterval(sending))
  let all = ''
  socket.on('data', (piece) => {
    all += piece
  })
  await new Promise((resolve) => socket.once('close', resolve))
  expect(all).toContain('4\r\ndone\r\n0\r\n\r\n')
})

test('a malformed body ends the read', async () => {
  const { port, codes } = await serveSteps([
    ['read', 10],
    ['read', 10],
    ['error', 'hidden'],
  ])
  const received = await raw(
    port,
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n',
    (all) => all.includes('WASM_SERVE_BAD_REQUEST'),
  )
  expect(received).toMatch(/^HTTP\/1\.1 400 /)
  expect((await codes(2)).at(-1)).toBe(-1)
})

/** Sends bytes; returns what came back when it is enough, or the connection closed. */
async function raw(port: number, bytes: string, isEnough: (all: string) => boolean): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.write(bytes)
  let all = ''
  for await (const piece of socket) {
    all += piece
    if (isEnough(all)) break
  }
  return all
}
