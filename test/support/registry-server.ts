import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { PROGRAMS } from './registry-programs.ts'

/**
 * Programs that are registries: Debian's `docker-registry`, the version of it that follows, and two of Google, of which only the
 * last has the referrers API.
 */
export const REGISTRY_SERVERS = ['docker-registry', 'distribution', 'crane', 'referrers-registry'] as const

export type RegistryServerName = (typeof REGISTRY_SERVERS)[number]

/** A running registry. */
export interface RegistryServer {
  /** `localhost:PORT`. */
  readonly host: string
  /** Ends it, and deletes its data. */
  stop(): Promise<void>
}

/**
 * Starts a registry with its data in memory or in a temporary folder. Its log goes to a file: a program that runs
 * meanwhile may block this process.
 *
 * @param auth - The `auth` section of its configuration, if it asks for a password or a token; `docker-registry` and `distribution` only.
 */
export async function openRegistryServer(name: RegistryServerName, auth?: object): Promise<RegistryServer> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-registry-'))
  const config = {
    version: 0.1,
    log: { level: 'info', formatter: 'json' },
    storage: { filesystem: { rootdirectory: join(folder, 'data') } },
    http: { addr: '127.0.0.1:0' },
    auth,
  }
  writeFileSync(join(folder, 'config.yml'), JSON.stringify(config)) // JSON is YAML
  const output = join(folder, 'output')
  const descriptor = openSync(output, 'w')
  const child = spawn(commandOf(name), argumentsOf(name, folder), {
    stdio: ['ignore', descriptor, descriptor],
  })
  closeSync(descriptor)
  const ended = once(child, 'exit')
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  for (;;) {
    const text = readFileSync(output, 'utf8')
    const [, port] = /(?:listening on \S*:|serving on port )(\d+)["\s]/.exec(text) ?? []
    if (port !== undefined) return { host: `localhost:${port}`, stop }
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${name} ended before it listened: ${text}`)
    await Promise.race([sleep(20), ended]) // rejects if the program is missing
  }
}

/** Starts `docker-registry`; it ends when the test ends. @param htpasswd - A line of `htpasswd -B`, if it asks for a password. */
export async function startDockerRegistry(htpasswd?: string): Promise<RegistryServer> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-htpasswd-'))
  const path = join(folder, 'htpasswd')
  writeFileSync(path, htpasswd ?? '')
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const auth = htpasswd === undefined ? undefined : { htpasswd: { realm: 'test', path } }
  const server = await openRegistryServer('docker-registry', auth)
  onTestFinished(server.stop)
  return server
}

function commandOf(name: RegistryServerName): string {
  return name === 'docker-registry' ? name : join(PROGRAMS, name)
}

function argumentsOf(name: RegistryServerName, folder: string): string[] {
  if (name === 'crane') return ['registry', 'serve', '--address', '127.0.0.1:0']
  return name === 'referrers-registry' ? [] : ['serve', join(folder, 'config.yml')]
}
