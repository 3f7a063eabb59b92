import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@redis/client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openRedisStore } from '../../src/guest/store/redis.ts'
import type { Store } from '../../src/guest/store/store.ts'
import { keepLog } from '../support/instance.ts'
import { type RedisServer, STORE_SERVERS, startRedis, startRedisTls, tlsFile } from '../support/redis.ts'
import { describeStore } from '../support/store-suite.ts'
import { openRedis } from '../support/stores.ts'
import { describeWith } from '../support/tools.ts'

const UNAVAILABLE = { code: 'WASM_SERVE_STORE_UNAVAILABLE' }

/** No server of a test has it: `freePort` begins at 10,000. */
const NOBODYS_PORT = 1

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const text = (value: Uint8Array | undefined) => value && Buffer.from(value).toString()

async function start(args: readonly string[] = [], port?: number): Promise<RedisServer> {
  const server = await startRedis(args, port)
  onTestFinished(() => server.stop())
  return server
}

interface OpenOptions {
  readonly timeoutMs?: number
  readonly login?: string
}

async function open(port: number, { timeoutMs = 2_000, login = '' }: OpenOptions = {}) {
  const log = keepLog()
  const store = await openRedisStore({ url: new URL(`redis://${login}127.0.0.1:${port}`), timeoutMs, log })
  onTestFinished(() => store.close())
  return { store, log }
}

/** A client that writes whatever it likes. */
async function raw(port: number) {
  const client = createClient({ url: `redis://127.0.0.1:${port}` })
  await client.connect()
  onTestFinished(() => client.destroy())
  return client
}

/** Asks until there is an answer: when a client connects again is its own affair. */
async function untilBack(store: Store): Promise<void> {
  for (;;) {
    try {
      await store.get('n', 'k')
      return
    } catch (error) {
      expect(error).toMatchObject(UNAVAILABLE)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}

/** Milliseconds that it takes to fail. */
async function timeToFail(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await expect(work()).rejects.toMatchObject(UNAVAILABLE)
  return performance.now() - start
}

for (const server of STORE_SERVERS) {
  describeWith([server], () => {
    let shared: RedisServer
    beforeAll(async () => {
      shared = await startRedis([], undefined, server)
    })
    afterAll(() => shared.stop())

    describeStore({ kind: 'redis', open: () => openRedis(shared.port) })
  })
}

describeWith(['redis-server'], () => {
  test('fails at once while the server is gone, and works when it is back', async () => {
    const server = await start()
    const { store, log } = await open(server.port)
    await store.set('n', 'k', bytes('x'))
    for (let round = 0; round < 2; round++) {
      const ask = async () => text(await store.get('n', 'k'))
      const pending = Array.from({ length: 10 }, () => ask().catch((error) => error))
      await server.stop()
      for (const answer of await Promise.all(pending)) {
        if (answer !== 'x' && answer !== undefined) expect(answer).toMatchObject(UNAVAILABLE)
      }
      for (let i = 0; i < 10; i++) expect(await timeToFail(async () => store.get('n', 'k'))).toBeLessThan(500)
      expect(await timeToFail(async () => store.set('n', 'k', bytes('y')))).toBeLessThan(500)
      const again = await start([], server.port)
      await untilBack(store)
      await store.set('n', 'k', bytes('z'))
      expect(text(await store.get('n', 'k'))).toBe('z')
      expect(await store.compareAndSwap('n', 'k', bytes('z'), bytes('x'))).toBe(true)
      Object.assign(server, { stop: again.stop })
    }
    const told = log.lines.map(({ level, message }) => `${level}: ${message}`)
    const [lost, found] = ['warn: the store cannot be reached', 'info: the store can be reached again']
    expect(told).toEqual([lost, found, lost, found]) // one line each, however many operations failed
  })

  test('gives up on a server that does not answer, and works when it answers again', async () => {
    const server = await start()
    const { store } = await open(server.port, { timeoutMs: 100 })
    await store.set('n', 'k', bytes('x'))
    server.process.kill('SIGSTOP')
    onTestFinished(() => {
      server.process.kill('SIGCONT')
    })
    const times = await Promise.all(
      Array.from({ length: 20 }, () => timeToFail(async () => store.get('n', 'k'))),
    )
    expect(Math.max(...times)).toBeLessThan(1_000)
    expect(await timeToFail(async () => store.set('n', 'k', bytes('y')))).toBeLessThan(1_000)
    server.process.kill('SIGCONT')
    await untilBack(store)
    await store.set('n', 'k', bytes('z'))
    expect(text(await store.get('n', 'k'))).toBe('z')
  })

  test('gives up on a connection whose other end says nothing any more', async () => {
    const server = await start()
    const sockets: Socket[] = []
    let isMute = false
    const proxy = createServer((socket) => {
      const upstream = new (socket.constructor as typeof Socket)()
      upstream.connect(server.port, '127.0.0.1')
      sockets.push(socket, upstream)
      const mute = isMute
      socket.on('data', (chunk) => (mute || isMute ? undefined : upstream.write(chunk)))
      upstream.on('data', (chunk) => socket.write(chunk))
      socket.on('error', () => upstream.destroy())
      upstream.on('error', () => socket.destroy())
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
      proxy.close()
    })
    const { store } = await open((proxy.address() as { port: number }).port, { timeoutMs: 100 })
    await store.set('n', 'k', bytes('x'))
    isMute = true
    expect(await timeToFail(async () => store.get('n', 'k'))).toBeLessThan(1_000)
    isMute = false // what is connected stays mute, as behind a firewall that has forgotten it
    await untilBack(store)
    expect(text(await store.get('n', 'k'))).toBe('x')
  })

  test('gives its password to the server, and to nobody else', async () => {
    const server = await start(['--requirepass', 'se/cret:word'])
    const { store, log } = await open(server.port, {
      login: `default:${encodeURIComponent('se/cret:word')}@`,
    })
    await store.set('n', 'k', bytes('x'))
    await server.stop()
    const write = async () => store.set('n', 'k', bytes('x'))
    const error: unknown = await write().catch((error) => error)
    expect(error).toMatchObject(UNAVAILABLE)
    const shown = `${(error as Error).stack} ${(error as Error).message} ${JSON.stringify(log.lines)}`
    expect(shown).toContain(`redis://127.0.0.1:${server.port}`)
    expect(shown).not.toContain('cret')
  })

  test('is not opened with a wrong password, without one, or when there is no server', async () => {
    const server = await start(['--requirepass', 'right'])
    const begun = performance.now()
    const wrong: unknown = await open(server.port, { login: ':wrong@' }).catch((error) => error)
    expect(performance.now() - begun).toBeLessThan(2_000)
    expect(wrong).toMatchObject({ ...UNAVAILABLE, message: expect.stringMatching(/WRONGPASS/) })
    expect((wrong as Error).message).not.toContain('wrong@')
    await expect(open(server.port)).rejects.toMatchObject({
      ...UNAVAILABLE,
      message: expect.stringMatching(/NOAUTH/),
    })
    // Not the port of a server that was stopped: while the client tries again, a server of another test may get it.
    await expect(open(NOBODYS_PORT)).rejects.toMatchObject({
      ...UNAVAILABLE,
      message: expect.stringContaining('ECONNREFUSED'),
    })
  })

  test('speaks TLS where the URL says so, and only to a server that is who it says', async () => {
    const server = await startRedisTls(['--requirepass', 'secret'])
    onTestFinished(() => server.stop())
    const client = async (environment: NodeJS.ProcessEnv) => {
      const script = fileURLToPath(new URL('../support/store-client.ts', import.meta.url))
      const env = {
        ...process.env,
        WASM_SERVE_STORE: `rediss://:secret@localhost:${server.port}`,
        ...environment,
      }
      const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script], { env })
      return stdout.trim()
    }
    expect(await client({ NODE_EXTRA_CA_CERTS: tlsFile('cert.pem') })).toBe('found')
    expect(await client({})).toBe('WASM_SERVE_STORE_UNAVAILABLE')
  })

  test('uses the database that the URL names', async () => {
    const server = await start()
    const url = (database: string) => new URL(`redis://127.0.0.1:${server.port}${database}`)
    const stores = await Promise.all(
      ['/0', '/3', ''].map(async (database) => openRedisStore({ url: url(database), timeoutMs: 2_000 })),
    )
    onTestFinished(async () => {
      await Promise.all(stores.map((store) => store.close()))
    })
    const [zero, three, none] = stores
    await three?.set('n', 'k', bytes('three'))
    expect(await zero?.get('n', 'k')).toBe(undefined)
    await zero?.set('n', 'k', bytes('zero'))
    expect(text(await none?.get('n', 'k'))).toBe('zero')
    expect(text(await three?.get('n', 'k'))).toBe('three')
  })

  test('says that it is full when the server has no memory left', async () => {
    const server = await start(['--maxmemory', '3mb', '--maxmemory-policy', 'noeviction'])
    const { store } = await open(server.port)
    const fill = async () => {
      for (let i = 0; i < 20; i++) await store.set('n', `k ${i}`, new Uint8Array(1_000_000))
    }
    await expect(fill()).rejects.toMatchObject({ code: 'WASM_SERVE_STORE_FULL' })
    await store.delete('n', 'k 0')
  })

  test('removes from its index what has expired', async () => {
    const server = await start()
    const { store } = await open(server.port)
    const keys = Array.from({ length: 300 }, (_, i) => `gone ${i}`)
    await Promise.all(keys.map((key) => store.set('n', key, bytes('x'), { ttlMs: 1 })))
    await store.set('n', 'stays', bytes('x'))
    while (await store.get('n', 'gone 299')) await new Promise((resolve) => setTimeout(resolve, 1))
    const pages: string[] = []
    let cursor: string | undefined
    do {
      const page = await store.list('n', '', 10, cursor)
      pages.push(...page.keys)
      cursor = page.cursor
    } while (cursor !== undefined)
    expect(pages).toEqual(['stays'])
    expect(await store.list('n', '', 10)).toEqual({ keys: ['stays'] })
  })

  test('refuses what comes after it was closed', async () => {
    const { store } = await open((await start()).port)
    const pending = store.set('n', 'k', bytes('x'))
    await store.close()
    await pending
    await expect(store.get('n', 'k')).rejects.toMatchObject(UNAVAILABLE)
  })

  test('says of its keys which are not as it writes them, and has what can be read', async () => {
    const server = await start()
    const { store } = await open(server.port)
    await store.set('n', 'listed', bytes('x'))
    const client = await raw(server.port)
    await client.set('wasm-serve:{n}:key:lost', 'y')
    await client.set('wasm-serve:{m}:index', 'text')
    await client.rPush('wasm-serve:{n}:key:list', 'z')
    await client.set('wasm-serve:{a b}:key:k', 'no such namespace')
    await client.set('of others', 'z')
    const found = []
    for await (const each of store.entries()) found.push(each)
    expect(found.filter((each) => 'fault' in each)).toHaveLength(4)
    const entries = found.flatMap((each) => ('fault' in each ? [] : [[each.key, text(each.value)]]))
    expect(entries.sort()).toEqual([
      ['listed', 'x'],
      ['lost', 'y'],
    ])
    expect(await store.restore([], false)).toBe(undefined)
    expect(await store.restore([], true)).toBe(0)
    expect(await client.keys('*')).toEqual(['of others'])
  })
})
