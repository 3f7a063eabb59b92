import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'

test('a call may wait for another server longer than the default deadline of a route', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    // A deadline can be missed only in time.
    setTimeout(() => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate'), 1_500)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const input = JSON.stringify({ url: `http://127.0.0.1:${port}/` })
  const { code, stdout } = await run([
    'call',
    guest('fetch'),
    'fetch',
    '-i',
    input,
    '--allow-host',
    '127.0.0.1',
  ])
  expect([code, stdout]).toEqual([0, '1200late'])
})
