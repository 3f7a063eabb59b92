import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { ROOT } from '../support/user-package.ts'

/** The exit code of the image's health check. @param words - The command line of process 1. */
function check(probes: string, words: readonly string[] = [], admin = ''): number | null {
  const env = { ...process.env, WASM_SERVE_PROBES: probes, WASM_SERVE_ADMIN: admin }
  const file = join(temporaryFolder(), 'cmdline')
  writeFileSync(file, ['tini', '-s', '--', 'node', 'cli.js', ...words, ''].join('\0'))
  return spawnSync(process.execPath, [join(ROOT, 'deploy/docker/health.mjs'), file], { env }).status
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
})

test("the image's health check asks where the flags put the listener, as the server does", async () => {
  const server = start([guest('echo'), '0', '--probes', '127.0.0.1:0'])
  await server.listening()
  const [, port = ''] = /listener for probes is on http\S+:(\d+)/.exec(server.stderr()) ?? []
  expect(check('127.0.0.1:1', ['/plugins', '--probes', `0.0.0.0:${port}`])).toBe(0)
  expect(check('127.0.0.1:1', [`--probes=${port}`, '/plugins'])).toBe(0)
  expect(check(port, ['--probes', '127.0.0.1:1'])).toBe(1)
  expect(check('', [], port)).toBe(0) // the admin listener answers in the same way
  expect(check('', ['--admin', port])).toBe(0)
  server.child.kill('SIGTERM')
  await server.ended
  expect(check('', [], port)).toBe(1)
  expect(check('')).toBe(0) // nothing can be asked
})
