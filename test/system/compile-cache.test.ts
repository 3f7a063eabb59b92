import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import module from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli-process.ts'

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cache-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe.runIf('enableCompileCache' in module)('the compile cache (Node.js 22.1 and later)', () => {
  test('bytecode is kept in the cache folder', async () => {
    const folder = temporaryFolder()
    const { code } = await run(['--version'], { XDG_CACHE_HOME: folder })
    expect(code).toBe(0)
    const files = readdirSync(join(folder, 'wasm-serve/v8'), { recursive: true, withFileTypes: true })
    expect(files.filter((file) => file.isFile()).length).toBeGreaterThan(3)
  })

  test('nothing is kept where other users can write', async () => {
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'wasm-serve'))
    chmodSync(join(folder, 'wasm-serve'), 0o777)
    const { code } = await run(['--version'], { XDG_CACHE_HOME: folder })
    expect(code).toBe(0)
    expect(existsSync(join(folder, 'wasm-serve/v8'))).toBe(false)
  })
})

test('the command runs where no cache can be written', async () => {
  const { code, stdout } = await run(['--version'], { XDG_CACHE_HOME: '/dev/null' })
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+/)])
})
