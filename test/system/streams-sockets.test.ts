import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { start } from '../support/cli-process.ts'
import { file, guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'
import { type Step, serveSteps, streamGuest } from '../support/stream-guest.ts'

const MIB = 2 ** 20
const CHUNKED = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

function chunk(content: string): string {
  return `${content.length.toString(16)}\r\n${content}\r\n`
}

/** A connection, and what has come over it. */
class Connection {
  readonly socket: Socket
  #received = ''
  #isClosed = false

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1' })
    onTestFinished(() => void this.socket.destroy())
    this.socket.on('error', () => undefined) // a reset is a way of closing
    this.socket.on('data', (bytes) => {
      this.#received += bytes.toString('latin1')
    })
    for (const event of ['end', 'close'])
      this.socket.on(event, () => {
        this.#isClosed = true
      })
  }

  /** Waits until this has come. */
  async until(wanted: string): Promise<string> {
    while (!this.#received.includes(wanted)) {
      if (this.#isClosed) throw new Error(`closed after: ${this.#received}`)
      await Promise.race([once(this.socket, 'data'), once(this.socket, 'close')])
    }
    return this.#received
  }

  /** Waits until the server has closed it. */
  async all(): Promise<string> {
    if (!this.#isClosed) await Promise.race([once(this.socket, 'end'), once(this.socket, 'close')])
    return this.#received
  }
}

const ECHO = { plugin: guest('stream'), function: 'echo', bodyLimit: 0, outputLimit: 0, workers: 2 }

test.each([
  ['a length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf'],
  ['chunks', `${CHUNKED}${chunk('half')}`],
])('a client that closes its side within a body ends the read (%s)', async (_framing, request) => {
  const { port, codes } = await serveSteps([
    ['read', 100],
    ['read', 100],
    ['error', 'hidden'],
  ])
  const connection = new Connection(port)
  connection.socket.write(request)
  expect(await codes(1)).toEqual([4])
  connection.socket.end()
  expect(await codes(2)).toEqual([4, -1])
  expect(await connection.all()).toMatch(/^HTTP\/1\.1 400 /)
})

test('a body that ends early after the start of the answer breaks the answer', async () => {
  const connection = new Connection((await listen(ECHO)).port)
  connection.socket.write(`${CHUNKED}${chunk('half')}`)
  await connection.until(chunk('half'))
  connection.socket.end()
  expect(await connection.all()).not.toContain(LAST_CHUNK)
})

test.each([
  ['a size that is no number', 'zz\r\n'],
  ['a negative size', '-1\r\nx\r\n'],
  ['a size beyond all numbers', 'fffffffffffffffff\r\n'],
  ['more bytes than its size', '1\r\nxyz\r\n'],
])('a malformed chunk after the start breaks the answer: %s', async (_what, malformed) => {
  const connection = new Connection((await listen(ECHO)).port)
  connection.socket.write(`${CHUNKED}${chunk('good')}`)
  await connection.until(chunk('good'))
  connection.socket.write(malformed)
  expect(await connection.all()).not.toContain(LAST_CHUNK)
})

test('extensions of chunks and trailers of a request are skipped, and the next request is answered', async () => {
  const connection = new Connection((await listen(ECHO)).port)
  const request = `${CHUNKED}5;name=value;other\r\nhello\r\n0;last\r\nx-sum: 1\r\n\r\n`
  connection.socket.write(request + CHUNKED + chunk('again') + LAST_CHUNK)
  await connection.until(`${chunk('hello')}${LAST_CHUNK}`)
  await connection.until(`${chunk('again')}${LAST_CHUNK}`)
})

const LONG = 'x'.repeat(20_000)

test.each([
  ['extensions of chunks', `1;${LONG}\r\nx\r\n`, 413, 'WASM_SERVE_BODY_TOO_LARGE'],
  ['trailers', `0\r\nx-long: ${LONG}\r\n\r\n`, 431, 'WASM_SERVE_HEADERS_TOO_LARGE'],
])('%s of a request have a limit', async (_what, bytes, status, code) => {
  const { port } = await listen({ ...ECHO, function: 'swallow' })
  const connection = new Connection(port)
  connection.socket.write(CHUNKED + chunk('a') + bytes)
  const all = await connection.until(code)
  expect(all).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
})

test('a client that closes its side after its body gets the whole answer', async () => {
  const connection = new Connection((await listen(ECHO)).port)
  const pieces = Array.from({ length: 50 }, (_, i) => chunk(`${i};`.repeat(1_000)))
  connection.socket.end(CHUNKED + pieces.join('') + LAST_CHUNK)
  const all = await connection.all()
  const body = [...all.matchAll(/([\da-f]+)\r\n((?:\d+;)*\d*;?)\r\n/g)]
    .map(([, , content]) => content)
    .join('')
  expect(body).toBe(Array.from({ length: 50 }, (_, i) => `${i};`.repeat(1_000)).join(''))
  expect(all.endsWith(LAST_CHUNK)).toBe(true)
})

/** More than all buffers between a guest and a client. Each write is logged, and a call may log 100 lines. */
const FLOOD: readonly Step[] = [['start', ''], { repeat: 60, steps: [['write zeros', MIB]] }]

test('a client that resets its connection stops a guest that writes', async () => {
  const { port, codes, line } = await serveSteps(FLOOD, { outputLimit: 0 })
  const { socket } = new Connection(port)
  socket.write(GET)
  await once(socket, 'data')
  socket.resetAndDestroy()
  await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
  expect((await codes(61)).at(-1)).toBe(-1)
})

test('a client that reads nothing for too long is cut off, and the guest sees it', async () => {
  const { port, codes, line } = await serveSteps(FLOOD, { outputLimit: 0 }, { unreadTimeoutMs: 300 })
  const socket = connect({ port, host: '127.0.0.1' }).pause()
  onTestFinished(() => void socket.destroy())
  socket.write(GET)
  await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
  expect((await codes(61)).at(-1)).toBe(-1)
})

test('a client that reads nothing and sends all the time is cut off too', async () => {
  const { port, line } = await serveSteps(FLOOD, { outputLimit: 0, bodyLimit: 0 }, { unreadTimeoutMs: 300 })
  const socket = connect({ port, host: '127.0.0.1' }).pause()
  socket.on('error', () => undefined)
  socket.write(CHUNKED)
  const sending = setInterval(() => socket.write(chunk('a')), 20)
  onTestFinished(() => {
    clearInterval(sending)
    socket.destroy()
  })
  await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
})

test('a client that reads, and whose guest is slow, is not cut off', async () => {
  const steps: Step[] = [['start', ''], ['write', 'a'], ['flush'], ['wait', 700], ['write', 'b']]
  const { port } = await serveSteps(steps, {}, { unreadTimeoutMs: 100 })
  const connection = new Connection(port)
  connection.socket.write(GET)
  await connection.until(`${chunk('a')}${chunk('b')}${LAST_CHUNK}`)
})

test('requests with bodies behind a stream get their own answers, in order', async () => {
  const connection = new Connection((await listen(ECHO)).port)
  const bodies = ['first', 'second', 'third']
  connection.socket.write(bodies.map((body) => CHUNKED + chunk(body) + LAST_CHUNK).join(''))
  const all = await connection.until(`${chunk('third')}${LAST_CHUNK}`)
  const answered = all.split('HTTP/1.1 200 OK').slice(1)
  expect(answered.map((answer) => answer.split('\r\n\r\n').slice(1).join('\r\n\r\n'))).toEqual(
    bodies.map((body) => chunk(body) + LAST_CHUNK),
  )
})

test('a request behind a stream that breaks off is not answered', async () => {
  const { port } = await serveSteps([['start', ''], ['write', 'half'], ['flush'], ['error', 'no']])
  const connection = new Connection(port)
  connection.socket.write(GET + GET)
  const all = await connection.all()
  expect(all.split('HTTP/1.1 ')).toHaveLength(2)
  expect(all.endsWith(chunk('half'))).toBe(true)
})

test('a request behind a body that no guest reads is answered', async () => {
  const { port } = await serveSteps([
    ['start', ''],
    ['write', 'done'],
  ])
  const connection = new Connection(port)
  const request = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n${'GET / '.repeat(33_333)}xx`
  connection.socket.write(request + GET.replace('Host', 'Connection: close\r\nHost'))
  expect((await connection.all()).split(`${chunk('done')}${LAST_CHUNK}`)).toHaveLength(3)
})

test('an answer that is slow to end holds the server for the grace period only', async () => {
  const steps: Step[] = [['start', ''], ['write', 'half'], ['flush'], ['wait', 60_000]]
  const { port, drain } = await serveSteps(steps)
  const connection = new Connection(port)
  connection.socket.write(GET)
  await connection.until(chunk('half'))
  await drain()
  expect(await connection.all()).not.toContain(LAST_CHUNK)
})

test('a stream that outlives many apps ends well, and no listeners pile up', async () => {
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const { port, replace } = await listen(ECHO)
  const connection = new Connection(port)
  connection.socket.write(CHUNKED + chunk('before'))
  await connection.until(chunk('before'))
  const options = checkServerOptions({ logLevel: 'silent', stallMs: 0, routes: [{ plugin: guest('echo') }] })
  const replaced: Promise<void>[] = []
  for (let i = 0; i < 12; i++) replaced.push(replace((await createApp(options, openLog('silent'))).app))
  connection.socket.write(chunk('after') + LAST_CHUNK)
  await connection.until(`${chunk('after')}${LAST_CHUNK}`)
  connection.socket.destroy()
  await Promise.all(replaced)
  expect(warnings).toEqual([])
})

test('clients that read slowly cost memory that does not grow with what they get', async () => {
  const plugin = file(
    'zeros.wasm',
    streamGuest(['start', ''], { repeat: 320, steps: [['write zeros', 65_536]] }),
  )
  const flags = ['--method', 'GET', '--output-limit', '0', '--workers', '8', '--spare-workers', '0']
  const running = start([plugin, '0', ...flags, '--log-level', 'error'])
  const port = Number(new URL(await running.listening()).port)
  /** Eight clients get so many bytes each. @returns the most memory meanwhile. */
  const readSlowly = async (bytes: number) => {
    let most = 0
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const socket = connect({ port, host: '127.0.0.1' }).pause()
        socket.write(GET)
        for (let read = 0; read < bytes; await sleep(1)) {
          const piece: Buffer | null = socket.read()
          read += piece?.length ?? 0
          most = Math.max(most, residentBytes(running.child.pid))
        }
        socket.destroy()
      }),
    )
    return most
  }
  const first = await readSlowly(20 * MIB) // all threads have run by now, and their heaps have grown
  expect(((await readSlowly(20 * MIB)) - first) / MIB).toBeLessThan(40)
})

function residentBytes(pid: number | undefined): number {
  return 1_024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}
