import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { ROOT } from '../support/user-package.ts'

/** The exit code of the image's health check. */
function check(probes: string): number | null {
  const env = { ...process.env, WASM_SERVE_PROBES: probes }
  return spawnSync(process.execPath, [join(ROOT, 'deploy/docker/health.mjs')], { env }).status
}

test("the image's health check asks the listener for probes, wherever it is", async () => {
  const socket = join(temporaryFolder(), 'probes.sock')
  for (const address of ['0.0.0.0:0', '127.0.0.1:0', socket]) {
    const server = start([guest('echo'), '0', '--probes', address])
    await server.listening()
    const [, port] = /listener for probes is on http\S+:(\d+)/.exec(server.stderr()) ?? []
    const at = port === undefined ? socket : address.replace(/:0$/, `:${port}`)
    expect(check(at)).toBe(0)
    if (port !== undefined) expect(check(port)).toBe(0)
    server.child.kill('SIGTERM')
    await server.ended
    expect(check(at)).toBe(1)
  }
  expect(check('')).toBe(1)
})
