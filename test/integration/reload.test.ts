import { expect, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'
import { open } from '../support/socket.ts'
import { openSocket } from '../support/web-socket.ts'

/** An app to put in the place of another. */
async function appOf(name: string, route: Partial<RouteOptions> = {}) {
  const options = checkServerOptions({ logLevel: 'silent', routes: [{ plugin: guest(name), ...route }] })
  const { app } = await createApp(options, openLog('silent'))
  return app
}

test('from the moment of a swap, new requests go to the new app', async () => {
  const server = await listen({ plugin: guest('echo') })
  const client = await open(server.port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc')
  expect(String((await client.answer())?.body)).toBe('abc')
  const replaced = server.replace(await appOf('upper'))
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc')
  expect(String((await client.answer())?.body)).toBe('ABC')
  await replaced
})

test('a request whose body is still arriving at the swap is answered by the old app', async () => {
  const server = await listen({ plugin: guest('upper') })
  const client = await open(server.port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n')
  expect((await client.answer())?.status).toBe(100) // so it has begun
  client.send('abc')
  const replaced = server.replace(await appOf('echo'))
  client.send('def')
  expect(await client.answer()).toMatchObject({ status: 200, body: Buffer.from('ABCDEF') })
  await replaced
})

test('a client that goes away in the middle of its body does not hold up the swap', async () => {
  const server = await listen({ plugin: guest('upper') })
  const client = await open(server.port)
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n')
  expect((await client.answer())?.status).toBe(100)
  const replaced = server.replace(await appOf('echo'))
  client.socket.destroy()
  await replaced
})

test('the engines of an app that was replaced are closed', async () => {
  const server = await listen({ plugin: guest('echo') })
  const app = await appOf('echo')
  await server.replace(app)
  await server.replace(await appOf('echo'))
  await server.replace(app)
  const answer = await fetch(server.url, { method: 'POST', body: 'abc' })
  expect([answer.status, (await answer.json()).code]).toEqual([503, 'WASM_SERVE_ENGINE_CLOSED'])
})

test('each app that is swapped in gets the handshakes of WebSockets, and one without gets none', async () => {
  const route = { contract: 'websocket' } as const
  const server = await listen({ plugin: guest('echo'), ...route })
  for (let round = 0; round < 2; round++) {
    await server.replace(await appOf('echo', route))
    const { socket, next } = await openSocket(server.port)
    socket.send(`${round}`)
    expect(await next()).toBe(`${round}`)
    socket.close()
  }
  await server.replace(await appOf('echo'))
  await expect(openSocket(server.port)).rejects.toThrow('status')
})
