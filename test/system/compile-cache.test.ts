import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
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

  test('its folders are those of the user alone, whatever the umask says', async () => {
    const folder = temporaryFolder()
    const program = ['sh', '-c', 'umask 002 && exec "$@"', 'sh', process.execPath] as const
    for (let start = 0; start < 2; start++) {
      await run(['--version'], { XDG_CACHE_HOME: folder }, { program })
      for (const name of ['wasm-serve', 'wasm-serve/v8'])
        expect(statSync(join(folder, name)).mode & 0o777).toBe(0o700)
    }
    expect(readdirSync(join(folder, 'wasm-serve/v8'), { recursive: true }).length).toBeGreaterThan(3)
  })

  test.skipIf(process.platform !== 'linux')(
    'a folder that cannot be made, as in /proc, is no loop',
    async () => {
      const { code } = await run(['--version'], { XDG_CACHE_HOME: '/proc/self' })
      expect(code).toBe(0)
    },
  )

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

test.skipIf(process.getuid?.() !== 0)(
  'a user without a name and a home folder runs the command',
  async () => {
    const numbers = [
      'const { setgid, setgroups, setuid } = process',
      'setgroups([])',
      'setgid(12345)',
      'setuid(12345)',
    ]
    const preload = `data:text/javascript,${encodeURIComponent(numbers.join(';'))}`
    const program = [process.execPath, '--import', preload] as const
    const { code, stdout, stderr } = await run(['--version'], { HOME: undefined }, { program })
    expect([code, stdout, stderr]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+/), ''])
  },
)

test('a relative home folder is none', async () => {
  const cwd = temporaryFolder()
  const { code } = await run(['--version'], { HOME: '' }, { cwd })
  expect([code, readdirSync(cwd)]).toEqual([0, []])
})

test.each([
  ['that is too old', 'is too old', ['--import', 'data:text/javascript,delete process.getBuiltinModule']],
  ['without WebAssembly', '--jitless', ['--import', 'data:text/javascript,delete globalThis.WebAssembly']],
  ['that generates no code', '--disallow-code', ['--disallow-code-generation-from-strings']],
])('Node.js %s is one line', async (_what, reason, options) => {
  const { code, stderr } = await run(['--version'], {}, { program: [process.execPath, ...options] })
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^wasm-serve: .*\n$/)])
  expect(stderr).toContain(reason)
})
