import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { createServer } from 'wasm-serve'
import { WebSocket } from 'ws'

const plugin = new URL('PLUGIN', import.meta.url)
const server = await createServer({ port: 0, logLevel: 'error', routes: [{ plugin, contract: 'websocket' }] })
after(() => server.close())
const url = await server.listen()

test('each connection has a sum of its own', async () => {
  for (const sums of [
    ['1', '3'],
    ['1', '3'],
  ]) {
    const socket = new WebSocket(url.replace('http', 'ws'))
    await once(socket, 'open')
    const answers = []
    for (const number of ['1', '2']) {
      socket.send(number)
      answers.push(`${(await once(socket, 'message'))[0]}`)
    }
    assert.deepEqual(answers, sums)
    socket.close()
    await once(socket, 'close')
  }
})
