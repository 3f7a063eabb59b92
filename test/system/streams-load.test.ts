import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'

const MIB = 2 ** 20

const ROUTE = { plugin: guest('stream'), function: 'echo', bodyLimit: 0, outputLimit: 0, workers: 8 }

test('192 MiB pass through a guest in both directions, with constant memory', async () => {
  const flags = ['--function', 'echo', '--body-limit', '0', '--output-limit', '0', '--workers', '1']
  const running = start([guest('stream'), '0', ...flags])
  const url = await running.listening()
  await exchange(url, 1, MIB)
  const idle = residentBytes(running.child.pid)
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, residentBytes(running.child.pid))), 10)
  const { sent, received } = await exchange(url, 2, 192 * MIB)
  clearInterval(watch)
  expect(received).toBe(sent)
  expect((most - idle) / MIB).toBeLessThan(100) // of 384 that passed: Node's own pipes take 45
})

test('streams of many clients are never mixed, while apps are swapped and clients vanish', async () => {
  const server = await listen(ROUTE)
  const outcomes = Array.from({ length: 100 }, async (_, id) => {
    await sleep(id * 5)
    if (id % 10 === 9) return vanish(server.url, id)
    const { sent, received } = await exchange(server.url, id, 300_000 + 1_000 * id, id % 10 === 8 ? 1 : 0)
    return sent === received
  })
  for (let swap = 0; swap < 5; swap++) {
    const { app } = await createApp(
      checkServerOptions({ logLevel: 'silent', stallMs: 0, routes: [ROUTE] }),
      openLog('silent'),
    )
    await sleep(60)
    await server.replace(app)
  }
  expect((await Promise.all(outcomes)).filter((isOwn) => !isOwn)).toEqual([])
})

test('when threads are killed, their streams break off, and all others end well', async () => {
  const { plugin } = ROUTE
  const server = await listen({ ...ROUTE, plugin, streamTimeoutMs: 3_000 })
  const outcomes = Array.from({ length: 24 }, async (_, id) => {
    const isHeld = id % 6 === 0
    try {
      const { sent, received } = await exchange(server.url, id, 200_000, 0, isHeld)
      return sent === received ? 'own' : 'crossed'
    } catch {
      return isHeld ? 'broken' : 'failed'
    }
  })
  expect((await Promise.all(outcomes)).filter((one) => one === 'crossed' || one === 'failed')).toEqual([])
  expect((await exchange(server.url, 99, 10_000)).received).toHaveLength(64)
})

/**
 * Sends a body that is unique to its id and reads the answer at the same time.
 *
 * @param pauseMs - Between pieces of the answer.
 * @param isHeld - Whether the body never ends.
 * @returns the digests of both.
 */
async function exchange(url: string, id: number, bytes: number, pauseMs = 0, isHeld = false) {
  const sent = createHash('sha256')
  const sending = request(url, { method: 'POST', agent: false })
  sending.on('error', () => undefined) // the answer tells
  const answered = once(sending, 'response') as Promise<[IncomingMessage]>
  async function* pieces() {
    for (let at = 0; at < bytes; at += 50_000) {
      const piece = Buffer.alloc(Math.min(50_000, bytes - at), `${id} ${at};`)
      sent.update(piece)
      yield piece
    }
    if (isHeld) await new Promise(() => undefined)
  }
  Readable.from(pieces()).pipe(sending)
  const received = createHash('sha256')
  const [answer] = await answered
  for await (const piece of answer) {
    received.update(piece)
    if (pauseMs > 0) await sleep(pauseMs)
  }
  return { sent: sent.digest('hex'), received: received.digest('hex') }
}

/** A client that leaves in the middle. */
async function vanish(url: string, id: number): Promise<boolean> {
  const sending = request(url, { method: 'POST', agent: false })
  sending.on('error', () => undefined)
  sending.write(Buffer.alloc(100_000, `${id}`))
  const [answer] = (await once(sending, 'response')) as [IncomingMessage]
  const [piece] = (await once(answer, 'data')) as [Buffer]
  sending.destroy()
  return piece.every((byte, at) => byte === `${id}`.charCodeAt(at % `${id}`.length))
}

function residentBytes(pid: number | undefined): number {
  return 1_024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}
