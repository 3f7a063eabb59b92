import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Redis and what took its place: each has to do. */
export const STORE_SERVERS = ['redis-server', 'valkey-server'] as const

export type StoreServer = (typeof STORE_SERVERS)[number]

/** Where none is named. For the bench of a fleet: `STORE_SERVER=valkey-server npm run bench -- fleet`. */
const DEFAULT_SERVER = STORE_SERVERS.find((name) => name === process.env.STORE_SERVER) ?? 'redis-server'

/** A server of the test's own, with its data in a temporary folder. */
export interface RedisServer {
  readonly port: number
  readonly process: ChildProcess
  /** Ends it; its data are lost. */
  stop(): Promise<void>
}

/** One that speaks TLS only; its certificate, for localhost, is its own authority. */
export async function startRedisTls(args: readonly string[] = []): Promise<RedisServer> {
  const port = await freePort()
  const own = ['--tls-cert-file', tlsFile('cert.pem'), '--tls-key-file', tlsFile('key.pem')]
  const tls = ['--tls-port', String(port), ...own, '--tls-ca-cert-file', tlsFile('cert.pem')]
  const server = await startRedis([...args, ...tls, '--tls-auth-clients', 'no'], 0)
  return { ...server, port }
}

/** A file of `test/support/tls`: a key that protects nothing. */
export function tlsFile(name: string): string {
  return fileURLToPath(new URL(`tls/${name}`, import.meta.url))
}

/** @param port - Default: a free one. */
export async function startRedis(
  args: readonly string[] = [],
  port?: number,
  server: StoreServer = DEFAULT_SERVER,
): Promise<RedisServer> {
  const at = port ?? (await freePort())
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-redis-'))
  const place = ['--port', String(at), '--bind', '127.0.0.1', '--dir', folder]
  const child = spawn(server, [...place, '--save', '', '--appendonly', 'no', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  await ready(child, server)
  return {
    port: at,
    process: child,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    },
  }
}

async function ready(child: ChildProcess, server: StoreServer): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let said = ''
    child.once('error', (error) => reject(new Error(`${server} is needed for these tests: ${error.message}`)))
    child.once('exit', () => reject(new Error(`${server} ended: ${said}`)))
    child.stdout?.on('data', (chunk) => {
      said += chunk
      if (said.includes('Ready to accept connections')) resolve()
    })
  })
}

/** The ports that Linux gives to no connection by itself (`ip_local_port_range`), and that `fetch` does not refuse: 10080 is the last one. */
const [FIRST_PORT, LAST_PORT] = [10_081, 32_000]

/** A port that is free now, and that no connection takes meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT))
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

/** Ports that may not be in use yet. */
const given = new Set<number>()

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!isListening) return false
  server.close()
  await once(server, 'close')
  return true
}
