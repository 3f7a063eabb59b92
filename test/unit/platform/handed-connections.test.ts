import { createServer } from 'node:http'
import { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { bytesTaken, serveHanded } from '../../../src/platform/node-workarounds.ts'

test('connections that another process has accepted count toward the limit until they are closed', async () => {
  const server = createServer()
  const events: string[] = []
  for (const event of ['listening', 'connection', 'drop']) server.on(event, () => events.push(event))
  server.maxConnections = 1
  const take = serveHanded(server)
  onTestFinished(() => void server.close())
  const [first, second, third] = [new Socket(), new Socket(), new Socket()]
  take(first)
  take(second)
  expect([first.destroyed, second.destroyed, events]).toEqual([
    false,
    true,
    ['listening', 'connection', 'drop'],
  ])
  await new Promise((resolve) => first.destroy().once('close', resolve))
  take(third)
  expect(third.destroyed).toBe(false)
  third.destroy()
})

test('of what was written only what the system has taken is counted, with TLS as it was encrypted', () => {
  const handle = {
    bytesWritten: 10,
    writeQueueSize: 3,
    readStart: () => undefined,
    readStop: () => undefined,
  }
  const plain = Object.assign(new Socket(), { _handle: handle })
  const secure = Object.assign(new Socket(), {
    _handle: { ...handle, _parent: { ...handle, bytesWritten: 50 } },
  })
  expect([bytesTaken(plain), bytesTaken(secure), bytesTaken(new Socket())]).toEqual([7, 47, 0])
})
