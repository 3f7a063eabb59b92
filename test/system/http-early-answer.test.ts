import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { file, guest } from '../support/guest.ts'
import { listenAll } from '../support/serve.ts'
import { type Step, streamGuest } from '../support/stream-guest.ts'

const PIECE = Buffer.alloc(65_536)

async function serve() {
  const streamed: Step[] = [
    ['start', ''],
    ['write', 'early'],
  ]
  const route = { method: '*', workers: 1, spareWorkers: 0, bodyLimit: 0 } as const
  const running = await listenAll([
    { ...route, plugin: file('early-streamed.wasm', streamGuest(...streamed)), url: '/streamed' },
    { ...route, plugin: file('early-whole.wasm', streamGuest(['output', 'early'])), url: '/whole' },
    { plugin: guest('echo'), url: '/echo', bodyLimit: 1_000 },
  ])
  onTestFinished(() => running.drain())
  return running
}

/** A client that reads no answer before it has sent all. @returns the answer. */
async function ask(port: number, head: string, bytes: number, pauseMs = 0): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  let failure: unknown
  socket.on('error', (error) => {
    failure = error
  })
  socket.write(`${head}\r\nContent-Length: ${bytes}\r\n\r\n`)
  for (let sent = 0; sent < bytes && failure === undefined; sent += PIECE.length) {
    if (!socket.write(PIECE)) await Promise.race([once(socket, 'drain'), once(socket, 'close')])
    if (pauseMs > 0) await sleep(pauseMs)
  }
  let text = ''
  socket.on('data', (data) => {
    text += String(data)
  })
  while (failure === undefined && !/early|"code"/.test(text) && !socket.readableEnded)
    await Promise.race([once(socket, 'data'), once(socket, 'end'), once(socket, 'close')])
  expect(failure).toBeUndefined()
  return text.slice(0, 12)
}

const ANSWERS = { '/streamed': '200', '/whole': '200', '/none': '404', '/echo': '413' }

test.each([
  ['keep-alive', 'HTTP/1.1\r\nHost: a'],
  ['close', 'HTTP/1.1\r\nHost: a\r\nConnection: close'],
  ['HTTP/1.0', 'HTTP/1.0'],
])('a client that sends all of a large body first gets the answer that came before (%s)', async (_name, rest) => {
  const { port } = await serve()
  for (const [url, status] of Object.entries(ANSWERS))
    expect([url, await ask(port, `POST ${url} ${rest}`, 2 ** 23)]).toEqual([
      url,
      expect.stringMatching(` ${status}$`),
    ])
})

test('a client that needs longer than a second gets the answer that came before', async () => {
  const { port } = await serve()
  const slow = Object.entries(ANSWERS).map(async ([url, status]) => {
    const head = `POST ${url} HTTP/1.1\r\nHost: a`
    expect([url, await ask(port, head, 25 * PIECE.length, 100)]).toEqual([
      url,
      expect.stringMatching(` ${status}$`),
    ])
  })
  await Promise.all(slow)
})
