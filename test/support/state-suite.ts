import { describe, expect, onTestFinished, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions, type RouteOptions, type ServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { file } from './guest.ts'
import { kvGuest } from './kv-guest.ts'

export const canWait = 'Suspending' in WebAssembly
/** As options of a route. */
export const inWorkers = { engine: 'workers', workers: 2, timeoutMs: 10_000, spareWorkers: 0 } as const
const ALL = ['get', 'set', 'list', 'kv_read', 'kv_write'] as const

/** A plug-in that calls all functions of the store, as a file. */
export const kvPlugin = (name = 'kv.wasm') => file(name, kvGuest(...ALL))

/** A route for each of these exports of a plug-in, with its name as URL. */
export function routesOf(plugin: string, exports: readonly string[], options: Partial<RouteOptions> = {}) {
  return exports.map((name) => ({ plugin, function: name, url: `/${name}`, ...options }))
}

/** An app with these routes; closed when the test ends. */
export async function mount(routes: RouteOptions[], server: Partial<ServerOptions> = {}) {
  const options = checkServerOptions({ logLevel: 'silent', stallMs: 0, ...server, routes })
  const { app, routes: served } = await createApp(options, openLog('silent'))
  onTestFinished(() => app.close())
  const post = async (url: string, payload: string | Buffer = '') => {
    const reply = await app.inject({ method: 'POST', url, payload })
    return { status: reply.statusCode, body: reply.body, bytes: reply.rawPayload, headers: reply.headers }
  }
  return { app, post, engines: served.map(({ engine, engineReason }) => engineReason ?? engine) }
}

/** The result of the guest. */
export const code = (number: number) => ({ status: 409, body: expect.stringMatching(`returned ${number}$`) })

/** The shared suite of guests' state, for all stores and engines. @param open - Opens a store; returns its URL. */
export const describeState = (name: string, open: () => Promise<string>, options: Partial<RouteOptions>) =>
  describe(`state in ${name}`, () => {
    test('is what the routes of a plug-in share', async () => {
      const { post } = await mount(routesOf(kvPlugin(), ['get', 'set', 'list', 'read', 'write'], options), {
        store: await open(),
      })
      expect(await post('/read', 'greeting')).toMatchObject({ status: 200, body: '\0\0\0\0' })
      if (options.runtime !== 'sdk') expect(await post('/get', 'greeting')).toMatchObject(code(-1))
      expect(await post('/set', 'greetingHello')).toMatchObject({ status: 200, body: '' })
      expect(await post('/get', 'greeting')).toMatchObject({ status: 200, body: 'Hello' })
      expect(await post('/write', 'greetingHi')).toMatchObject({ status: 200, body: '' })
      expect(await post('/read', 'greeting')).toMatchObject({ status: 200, body: 'Hi' })
      expect(JSON.parse((await post('/list', '')).body)).toEqual({ keys: ['greeting'] })
    })

    test('keeps each of many values as it was written', async () => {
      const { post } = await mount(routesOf(kvPlugin(), ['get', 'set'], options), {
        store: await open(),
      })
      const sizes = [0, 1, 7, 16_384, 100_000, 1_000_000]
      const entries = sizes.map((size, i) => {
        const value = Buffer.from(Array.from({ length: size }, (_, at) => (at * 7 + i) % 256))
        return { key: `key ${i}   `, value }
      })
      const written = entries.map(({ key, value }) => post('/set', Buffer.concat([Buffer.from(key), value])))
      for (const { status } of await Promise.all(written)) expect(status).toBe(200)
      const read = await Promise.all(entries.map(({ key }) => post('/get', key)))
      read.forEach(({ bytes }, i) => {
        expect(bytes.equals(entries[i]?.value ?? Buffer.alloc(0))).toBe(true)
      })
    })
  })
