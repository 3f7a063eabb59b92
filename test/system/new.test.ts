import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { plugins } from '../../plugins/plugins.ts'
import { TINYGO } from '../../plugins/rebuild.ts'
import { findToolchain } from '../../plugins/toolchains.ts'
import { LANGUAGES } from '../../src/cli/new/new.ts'
import { run, start } from '../support/cli-process.ts'

for (const [name, { folder }] of Object.entries(LANGUAGES)) {
  const template = plugins.find((plugin) => plugin.folder === folder)
  const title = `a new project in ${name} is built and served by what its README says`
  if (!template || (await findToolchain(template.toolchain)) === undefined) {
    test.skip(`${title}: ${template?.toolchain.name} is missing`)
    continue
  }
  test(title, async () => {
    const outside = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
    onTestFinished(() => rmSync(outside, { recursive: true, force: true }))
    expect((await run(['new', name, 'my-greeter'], {}, { cwd: outside })).code).toBe(0)
    const cwd = join(outside, 'my-greeter')
    await promisify(execFile)('bash', ['build.sh'], { cwd, env: { TINYGO, ...process.env } })

    const url = await start([], { PORT: '0' }, { cwd }).listening()
    const answer = await fetch(url, { method: 'POST', body: '"Zoë" 😄' })
    expect([answer.status, await answer.json()]).toEqual([200, { message: '🦀 Hello "Zoë" 😄' }])
    const called = await run(['call', 'my-greeter.wasm', '--input', 'Bob'], {}, { cwd })
    expect(called.stdout).toBe('{"message":"🦀 Hello Bob"}')
  }, 600_000)
}
