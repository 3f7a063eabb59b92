import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'

/** Debian's `docker-registry`, which has no referrers API. */
export interface DockerRegistry {
  /** `localhost:PORT`. */
  readonly host: string
  stop(): Promise<void>
}

/**
 * A registry with its data in a temporary folder; ended when the test ends.
 *
 * @param htpasswd - A line of `htpasswd -B`, if it asks for a password.
 */
export async function startDockerRegistry(htpasswd?: string): Promise<DockerRegistry> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-registry-'))
  const config = join(folder, 'config.yml')
  writeFileSync(
    config,
    [
      'version: 0.1',
      'log: { level: info, formatter: json }',
      `storage: { filesystem: { rootdirectory: ${join(folder, 'data')} } }`,
      'http: { addr: "127.0.0.1:0" }',
      ...(htpasswd === undefined
        ? []
        : [`auth: { htpasswd: { realm: test, path: ${join(folder, 'htpasswd')} } }`]),
    ].join('\n'),
  )
  writeFileSync(join(folder, 'htpasswd'), htpasswd ?? '')
  const child = spawn('docker-registry', ['serve', config], { stdio: ['ignore', 'ignore', 'pipe'] })
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    }
    rmSync(folder, { recursive: true, force: true })
  }
  onTestFinished(stop)
  for await (const line of createInterface({ input: child.stderr })) {
    const [, port] = /listening on 127\.0\.0\.1:(\d+)/.exec(line) ?? []
    if (port === undefined) continue
    child.stderr.resume()
    return { host: `localhost:${port}`, stop }
  }
  throw new Error('docker-registry ended before it listened')
}
