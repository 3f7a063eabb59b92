import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CLI, start } from '../support/cli-process.ts'
import { pluginFile } from '../support/pdk.ts'
import { describeWith } from '../support/tools.ts'

/* The official client of Python, from PyPI. */

const run = promisify(execFile)
const HELLO = pluginFile('hello', 'hello.wasm')

describeWith(['python3'], () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-mcp-python-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  beforeAll(async () => {
    await run('python3', ['-m', 'venv', folder])
    await run(join(folder, 'bin/pip'), ['install', '--quiet', 'mcp==2.3.0'])
  }, 120_000)

  test('the client of Python uses tools, in both eras and over both transports', async () => {
    const server = start([HELLO, '--mcp', '--port', '0', '--url', '/hello'], { WASM_SERVE_DRAIN_MS: '0' })
    const url = `${await server.listening()}/mcp`
    const program = fileURLToPath(new URL('mcp-python.py', import.meta.url))
    const command = [process.execPath, CLI, 'mcp', HELLO]
    const { stdout } = await run(join(folder, 'bin/python'), [program, url, ...command])
    const used = { tools: ['hello'], text: '{"message":"🦀 Hello Ada"}', errors: [false, true] }
    expect(JSON.parse(stdout)).toEqual([
      { ...used, version: '2026-07-28' },
      { ...used, version: '2025-11-25' },
      { ...used, version: '2026-07-28' },
    ])
  })
})
