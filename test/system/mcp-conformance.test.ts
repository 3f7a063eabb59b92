import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'
import { hyperGuest } from '../support/hyper-guest.ts'
import { describeWith } from '../support/tools.ts'

/* The official conformance suite, which covers the revisions of 2025. It needs Node.js 22 or later. */

/** Scenarios that need a session, or requests of the server to the client: stateless requests have no place for them. */
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

/** What passes. `server-sse-multiple-streams` only warns where there is no session. */
const PASSED = [
  'completion-complete',
  'dns-rebinding-protection',
  'ping',
  'prompts-get-embedded-resource',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-with-image',
  'prompts-list',
  'resources-list',
  'resources-read-binary',
  'resources-read-text',
  'resources-templates-read',
  'server-initialize',
  'server-sse-multiple-streams',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-error',
  'tools-call-image',
  'tools-call-mixed-content',
  'tools-call-simple-text',
  'tools-call-with-progress',
  'tools-list',
]

describeWith(['npx with node@24'], () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-conformance-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test('every scenario passes that needs no session', async () => {
    const plugin = file('hyper.wasm', guestBytes(hyperGuest()))
    const flags = ['--contract', 'hyper-mcp', '--mcp', '--port', '0']
    const server = start([plugin, ...flags], { WASM_SERVE_DRAIN_MS: '0' })
    const url = `${await server.listening()}/mcp`
    const packages = ['-p', 'node@24', '-p', '@modelcontextprotocol/conformance@0.1.16']
    const words = ['-y', ...packages, 'conformance', 'server', '--url', url]
    const { stdout } = await promisify(execFile)('npx', words, { cwd: folder }).catch((failed) => failed) // some scenarios fail
    const results = [...String(stdout).matchAll(/^([✓✗]) ([\w-]+): \d+ passed/gm)]
    const named = (mark: string) =>
      results.flatMap(([, own, name = '']) => (own === mark ? [name] : [])).sort()
    expect([named('✓'), named('✗')]).toEqual([PASSED, NEED_SESSIONS])
  }, 300_000)
})
