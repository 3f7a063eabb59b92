import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { plugins } from '../../plugins/plugins.ts'
import { TINYGO } from '../../plugins/rebuild.ts'
import { findToolchain } from '../../plugins/toolchains.ts'
import { LANGUAGES, SCRIPT_LANGUAGES, TEMPLATES } from '../../src/cli/new/new.ts'
import { run, start } from '../support/cli-process.ts'
import { userPackage } from '../support/user-package.ts'

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

for (const language of Object.keys(SCRIPT_LANGUAGES)) {
  test(`projects in ${language} are tested, built and served by what their README says`, async () => {
    const outside = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
    onTestFinished(() => rmSync(outside, { recursive: true, force: true }))
    cpSync(join(userPackage(), 'node_modules'), join(outside, 'node_modules'), { recursive: true })
    for (const template of TEMPLATES) {
      const name = `my-${template}`
      expect((await run(['new', language, name, '--template', template], {}, { cwd: outside })).code).toBe(0)
      const cwd = join(outside, name)
      await promisify(execFile)(process.execPath, ['--test'], { cwd })
      const script = `${name}.${language === 'typescript' ? 'ts' : 'js'}`
      expect((await run(['build', script], {}, { cwd })).stdout).toBe(`${name}.wasm\n`)

      const url = await start(['dev'], { PORT: '0' }, { cwd }).listening()
      const isPage = template === 'http'
      const answer = await (isPage ? fetch(`${url}/?name=Bob`) : fetch(url, { method: 'POST', body: 'Bob' }))
      expect([answer.status, await answer.text()]).toEqual([
        200,
        isPage ? '<h1>Hello, Bob!</h1>\n' : '{"message":"Hello, Bob!"}',
      ])
    }
  }, 300_000)
}
