import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openStore } from '../../../src/guest/store/open-store.ts'
import { syncOf } from '../../../src/guest/store/store.ts'
import { checkServerOptions, checkWasmServeOptions } from '../../../src/options/options.ts'
import { loadPackage } from '../../../src/platform/optional-package.ts'
import { newFolder } from '../../support/stores.ts'

const settings = { maxBytes: 1_000_000, timeoutMs: 500 }
const route = { plugin: 'any.wasm' }

/** A server of Redis' protocol that gives each command the same answer; how often it was connected to. */
async function answering(reply: string) {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    connections++
    sockets.add(socket.on('error', () => undefined))
    socket.on('data', (bytes) => {
      const commands = String(bytes).match(/^\*\d/gm)?.length ?? 0
      socket.write(reply.repeat(commands))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  return { port, connections: () => connections }
}

describe('a store', () => {
  test.each([
    ['a wrong password', ':wrong@', '-WRONGPASS invalid username-password pair or user is disabled.\r\n'],
    ['no password', '', '-NOAUTH Authentication required.\r\n'],
  ])('in Redis is refused at once with %s, and not tried again', async (_name, login, reply) => {
    const { port, connections } = await answering(reply)
    const error: unknown = await openStore(`redis://${login}127.0.0.1:${port}`, settings).catch(
      (error) => error,
    )
    expect(error).toMatchObject({
      code: 'WASM_SERVE_STORE_UNAVAILABLE',
      message: expect.stringMatching(/(WRONGPASS|NOAUTH).*check the user and password/),
    })
    expect((error as Error).message).not.toContain('wrong@')
    expect(connections()).toBe(1)
  })

  test('is in memory unless its URL says otherwise', async () => {
    expect(checkWasmServeOptions({ routes: [route] }).store).toBe('memory:')
    const store = await openStore('memory:', settings)
    expect([store.kind, store.sync, syncOf(`${store.kind}:`)]).toEqual(['memory', 'all', 'all'])
  })

  test('is in a folder, even one with a dot or spaces in its name', async () => {
    const folder = `${newFolder()} and more.d`
    const store = await openStore(`lmdb:${folder}`, settings)
    onTestFinished(() => store.close())
    await store.set('n', 'k', Buffer.from('x'))
    expect([store.kind, store.sync, syncOf(`${store.kind}:`)]).toEqual(['lmdb', 'reads', 'reads'])
  })

  test.each([
    '',
    'memory',
    'memory:64MiB',
    'lmdb:',
    'mysql://user:secret@host',
    'redis:',
    'redis://',
    'redis:secret@host:6379',
    'redis://user:secret@host:port',
    'redis://user:secret@host/notanumber',
    'REDIS',
  ])('is not what %j names, and the message keeps its secrets', async (url) => {
    const error: unknown = await openStore(url, settings).catch((error) => error)
    expect(error).toMatchObject({ code: 'WASM_SERVE_STORE_INVALID' })
    expect(`${(error as Error).stack}`).not.toContain('secret')
  })

  test.each([
    '',
    'memory',
    'memory:64MiB',
    'lmdb:',
    'mysql://user:secret@host',
  ])('is refused as the option %j', (store) => {
    const check = () => checkServerOptions({ routes: [route], store })
    expect(check).toThrow(
      expect.objectContaining({
        code: 'WASM_SERVE_OPTIONS_INVALID',
        message: expect.stringMatching(/store: must be memory:, lmdb:FOLDER, redis:\/\/HOST/),
      }),
    )
    expect(check).not.toThrow(/secret/)
  })

  test('whose package is not installed says how to install it', async () => {
    const load = () => import('wasm-serve-no-such-package' as string)
    await expect(loadPackage('lmdb:data', 'wasm-serve-no-such-package', load)).rejects.toMatchObject({
      code: 'WASM_SERVE_PACKAGE_MISSING',
      message: expect.stringContaining('npm install wasm-serve-no-such-package'),
    })
    const broken = () => Promise.reject(Object.assign(new Error('broken'), { code: 'ERR_DLOPEN_FAILED' }))
    await expect(loadPackage('lmdb:data', 'lmdb', broken)).rejects.toThrow('broken')
  })
})
