import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { type CreateServerOptions, createServer, loadPlugin, type RouteOptions } from '../../src/index.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions } from '../../src/options/options.ts'
import { openSwappableApp } from '../../src/server/front.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { open } from '../support/socket.ts'

const TOKEN = 'a-token-of-32-characters-or-so-12'
const ADMIN = { admin: '127.0.0.1:0', adminToken: TOKEN } as const

/** An app that is closed when the test ends. */
async function create(route: RouteOptions, options: Partial<CreateServerOptions> = {}) {
  const app = await createServer({ logLevel: 'silent', port: 0, stallMs: 0, ...options, routes: [route] })
  onTestFinished(() => app.close())
  const inject = async (body: string, url = '/') =>
    (await app.inject({ method: 'POST', url, payload: body })).body
  const ask = async (url: string, body: string) => (await fetch(url, { method: 'POST', body })).text()
  const api = async (method: string, path: string, body?: Uint8Array) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/wasm' }
    const answer = await fetch(`${app.adminUrl}${path}`, {
      method,
      headers,
      ...(body && { body: Buffer.from(body) }),
    })
    return { status: answer.status, body: await answer.json() }
  }
  return { app, inject, ask, api }
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-create-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

test('listen() without an address listens where the options say, and another server is told that it is taken', async () => {
  const { app, ask } = await create({ plugin: guest('upper') }, { host: '127.0.0.1' })
  const url = await app.listen()
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  expect(await ask(url, 'abc')).toBe('ABC')
  const { app: other } = await create({ plugin: guest('upper') }, { port: Number(new URL(url).port) })
  await expect(other.listen()).rejects.toMatchObject({ code: 'WASM_SERVE_LISTEN_FAILED' })
})

test('listen() listens on the socket of the options', async () => {
  const socket = join(folder(), 'a.sock')
  const { app } = await create({ plugin: guest('upper') }, { socket })
  expect(await app.listen()).toBe(`unix:${socket}`)
})

test('listen() with an address listens there, on all addresses of its name, and tells a callback', async () => {
  const { app, ask } = await create({ plugin: guest('upper') })
  const url = await new Promise<string>((resolve, reject) => {
    app.listen({ port: 0, host: 'localhost' }, (error, address) => (error ? reject(error) : resolve(address)))
  })
  expect(await ask(`http://localhost:${new URL(url).port}`, 'abc')).toBe('ABC')
})

test('the admin listener changes what the app answers, and ends with it', async () => {
  const { app, inject, ask, api } = await create({ plugin: guestBytes('echo') }, ADMIN)
  const url = await app.listen()
  expect([await inject('abc'), await ask(url, 'abc')]).toEqual(['abc', 'abc'])
  const { body: plugins } = await api('GET', '/api/plugins')
  expect(plugins).toMatchObject([{ added: false, exports: ['echo'] }])
  const put = await api('PUT', `/api/plugins/${plugins[0].name}`, guestBytes('upper'))
  expect([put.status, put.body.change.ok]).toEqual([200, true])
  expect([await inject('abc'), await ask(url, 'abc')]).toEqual(['ABC', 'ABC'])
  expect((await api('GET', '/api')).body).toMatchObject({ url, state: 'serving', revision: 2 })
  expect((await api('POST', `/api/plugins/${plugins[0].name}/rollback`)).status).toBe(400) // no JSON was sent
  expect((await fetch(`${app.adminUrl}/readyz`)).status).toBe(200)
  await app.close()
  await expect(fetch(`${app.adminUrl}/readyz`)).rejects.toThrow()
  await expect(fetch(url)).rejects.toThrow()
})

test('what the admin listener has changed is kept in the state folder', async () => {
  const state = join(folder(), 'state')
  const { app, api } = await create({ plugin: guest('echo') }, { ...ADMIN, state })
  expect((await api('PUT', '/api/plugins/echo', guestBytes('upper'))).status).toBe(200)
  await app.close()
  const { inject } = await create({ plugin: guest('echo') }, { state })
  expect(await inject('abc')).toBe('ABC')
})

test('what was loaded before cannot be kept, and is refused where it would have to be', async () => {
  const plugin = await loadPlugin(guest('echo'))
  await expect(create({ plugin }, ADMIN)).rejects.toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
  const { inject } = await create({ plugin })
  expect(await inject('abc')).toBe('abc')
})

test('files that are watched are served when they have changed', async () => {
  const plugin = file('created.wasm', guestBytes('echo'))
  const { inject } = await create({ plugin }, { watch: true })
  expect(await inject('abc')).toBe('abc')
  file('created.wasm', guestBytes('upper'))
  await expect.poll(() => inject('abc'), { timeout: 10_000 }).toBe('ABC')
})

test('code that a program gives stays with its routes when others change', async () => {
  const seen: string[] = []
  const route: RouteOptions = {
    ...{ plugin: guest('echo'), headers: { 'x-a': 'b' } },
    onCall: ({ route }) => void seen.push(route.url),
  }
  const { inject, api } = await create(route, ADMIN)
  expect((await api('PUT', '/api/plugins/more', guestBytes('upper'))).status).toBe(201)
  expect((await api('PUT', '/api/plugins/echo', guestBytes('silent'))).status).toBe(200)
  await inject('abc')
  expect(seen).toEqual(['/'])
})

test('close() waits for a request in flight, and with graceMs no longer than that', async () => {
  const begin = async (options: Partial<CreateServerOptions>) => {
    const { app } = await create({ plugin: guest('upper') }, options)
    const client = await open(Number(new URL(await app.listen()).port))
    client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n')
    expect((await client.answer())?.status).toBe(100)
    client.send('abc')
    return { app, client }
  }
  const patient = await begin({})
  const closed = patient.app.close()
  patient.client.send('def')
  expect(await patient.client.answer()).toMatchObject({ status: 200, body: Buffer.from('ABCDEF') })
  await closed

  const short = await begin({ drainMs: 0, graceMs: 50 })
  await short.app.close()
})

test('what is behind an app is closed after the app, also one that closes for longer than a server waits', async () => {
  const order: string[] = []
  const app = Fastify()
  let release: () => void = () => undefined
  const isOver = new Promise<void>((resolve) => {
    release = resolve
  })
  app.addHook('onClose', async () => {
    await isOver
    order.push('app')
  })
  const close = app.close.bind(app)
  let asked = 0
  Object.assign(app, {
    close() {
      if (++asked > 1) release() // the server waits no longer
      return close()
    },
  })
  const behind = {
    app,
    end: () => undefined,
    async close() {
      order.push('behind')
      release()
    },
  }
  const routes = [{ plugin: guest('echo') }]
  const options = checkServerOptions({ port: 0, drainMs: 0, routes })
  const front = await openSwappableApp(options, behind, openLog('silent'))
  await front.app.listen()
  await front.app.close()
  expect(order).toEqual(['app', 'behind'])
})
