import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'
import { hyperGuest, lateTaskGuest, taskGuest } from '../support/hyper-guest.ts'
import { describeWith } from '../support/tools.ts'

/* The official conformance suite. Its versions before 0.2 have the revisions of 2025 only. It needs Node.js 22 or later. */

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12'

/** Requests of the server to the client, and what outlives a request: stateless requests of 2025 have no place for them. */
const NEED_SESSIONS = [
  'elicitation-sep1034-defaults',
  'elicitation-sep1330-enums',
  'logging-set-level',
  'resources-subscribe',
  'resources-unsubscribe',
  'tools-call-elicitation',
  'tools-call-sampling',
  'tools-call-with-logging',
]

/** Plug-ins with all tools that the suite calls. */
function config(): string {
  const contract = 'hyper-mcp'
  const routes = [
    { url: '/all', plugin: file('all.wasm', guestBytes(hyperGuest())), contract },
    { url: '/tasks', plugin: file('tasks.wasm', guestBytes(taskGuest())), contract, tool: { task: {} } },
    {
      url: '/late',
      plugin: file('late.wasm', guestBytes(lateTaskGuest())),
      contract,
      tool: { task: { afterMs: 200 } },
    },
  ]
  const timed = routes.map((route) => ({ ...route, timeoutMs: 60_000 }))
  return file('conformance.json', Buffer.from(JSON.stringify({ routes: timed, mcp: {} })))
}

describeWith(['npx with node@24'], () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-conformance-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.each([
    ['2026-07-28', [], 50],
    ['2025-11-25', NEED_SESSIONS, 25],
  ])(
    'every scenario that revision %s requires passes, with few exceptions',
    async (revision, failed, count) => {
      const server = start(['-c', config(), '--port', '0'], { WASM_SERVE_DRAIN_MS: '0' })
      const url = `${await server.listening()}/mcp`
      const suite = ['conformance', 'server', '--url', url, '--requirements', revision]
      const words = ['-y', '-p', 'node@24', '-p', SUITE, ...suite]
      const { stdout } = await promisify(execFile)('npx', words, { cwd: folder }).catch((error) => error) // some scenarios fail
      const results = [...String(stdout).matchAll(/^([✓✗]) ([\w-]+): \d+ passed/gm)]
      const named = (mark: string) =>
        results.flatMap(([, own, name = '']) => (own === mark ? [name] : [])).sort()
      expect(named('✗')).toEqual(failed)
      expect(named('✓').length).toBe(count)
    },
    300_000,
  )
})
