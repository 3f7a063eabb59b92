import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { pluginFile } from '../support/pdk.ts'
import { describeWith } from '../support/tools.ts'

/* An agent framework from PyPI, with a script in place of its model. */

const VERSION = '2.68.0'

/** Tools in three languages. */
const PLUGINS = {
  rust: { source: pluginFile('hello', 'hello.wasm'), tool: { description: 'Greets a person.' } },
  assemblyscript: { source: pluginFile('hello-assemblyscript', 'hello.wasm') },
  tinygo: { source: pluginFile('count-vowels-tinygo', 'count-vowels.wasm') },
}

const LATER = { zig: { source: pluginFile('hello-zig', 'hello.wasm') } }

describeWith(['python3'], () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-mcp-agent-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  beforeAll(async () => {
    await promisify(execFile)('python3', ['-m', 'venv', folder])
    const packages = [`pydantic-ai-slim[mcp]==${VERSION}`, 'mcp==2.3.0']
    await promisify(execFile)(join(folder, 'bin/pip'), ['install', '--quiet', ...packages])
  }, 240_000)

  test('it uses tools in three languages, and one that a reload adds, without a lost call', async () => {
    const configure = (plugins: object) =>
      writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify({ port: 0, mcp: { ttlMs: 0 }, plugins }))
    configure(PLUGINS)
    const server = start([], { WASM_SERVE_DRAIN_MS: '0' }, { cwd: folder })
    const url = `${await server.listening()}/mcp`
    const program = fileURLToPath(new URL('mcp-agent.py', import.meta.url))
    const agent = spawn(join(folder, 'bin/python'), [program, url, 'zig'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void agent.kill('SIGKILL'))
    const lines = createInterface(agent.stdout)[Symbol.asyncIterator]()
    const next = async () => JSON.parse((await lines.next()).value ?? '{}')
    expect(await next()).toEqual({
      rust: '{"message":"🦀 Hello Ada Lovelace"}',
      assemblyscript: '{"message":"🦀 Hello Ada Lovelace"}',
      tinygo: expect.stringContaining('"count":6'),
    })
    configure({ ...PLUGINS, ...LATER })
    server.kill('SIGHUP')
    expect((await next()).runs).toBeGreaterThan(0)
  }, 60_000)
})
