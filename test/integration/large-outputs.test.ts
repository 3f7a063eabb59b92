import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../../src/index.ts'
import { guest } from '../support/guest.ts'

/** Bytes of a large body that tell which one it is. */
function bodyOf(id: number): Buffer {
  return Buffer.alloc(20_000 + id * 613, `<${id}>`)
}

test('each client gets its own large output, also if others read slowly or go away', async () => {
  const app = await createServer({
    routes: [{ plugin: guest('echo'), bodyLimit: 1_048_576 }],
    logLevel: 'silent',
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const agent = new Agent({ keepAlive: true, maxSockets: 10 })
  onTestFinished(async () => {
    agent.destroy()
    await app.close()
  })
  const ask = async (id: number) => {
    const sent = request(url, { method: 'POST', agent: id % 7 === 0 ? false : agent })
    sent.on('error', () => undefined) // of those that go away
    sent.end(bodyOf(id))
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    if (id % 7 === 0) {
      sent.destroy()
      return
    }
    if (id % 5 === 0) await setImmediate()
    const parts: Buffer[] = []
    for await (const part of answer) parts.push(part as Buffer)
    expect(Buffer.concat(parts).equals(bodyOf(id))).toBe(true)
  }
  for (let round = 0; round < 4; round++) await Promise.all(Array.from({ length: 100 }, (_, id) => ask(id)))
})
