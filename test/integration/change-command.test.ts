import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { guest } from '../support/guest.ts'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-change-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function ask(url: string, body = 'abc') {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()]
}

test('a config file that is wrong changes nothing, and the log says what is wrong with it', async () => {
  const cwd = folder()
  cpSync(guest('echo'), join(cwd, 'echo.wasm'))
  writeFileSync(join(cwd, 'wasm-serve.yaml'), 'port: 0\nroutes:\n  - { url: /, plugin: echo.wasm }\n')
  const server = start([], {}, { cwd })
  const url = await server.listening()
  writeFileSync(join(cwd, 'wasm-serve.yaml'), 'port: 0\nroutes:\n  - { url: /, plugn: echo.wasm }\n')
  server.kill('SIGHUP')
  const log = await server.logged('not changed')
  expect(log).toContain('WASM_SERVE_CONFIG_INVALID')
  expect(log).toContain('wasm-serve.yaml:3:15')
  expect(await ask(url)).toEqual([200, 'abc'])
})

test('a secret that comes with a reload is hidden in the log as one of the start is', async () => {
  const cwd = folder()
  cpSync(guest('echo'), join(cwd, 'echo.wasm'))
  const config = (name: string) => `port: 0\nroutes:\n  - url: /\n    plugin: ${name}.wasm\n`
  writeFileSync(join(cwd, 'wasm-serve.yaml'), config('echo'))
  const server = start([], { PLACE: 'very-secret-place' }, { cwd })
  await server.listening()
  writeFileSync(join(cwd, 'wasm-serve.yaml'), config(`\${PLACE}/absent`))
  server.kill('SIGHUP')
  const log = await server.logged('not changed')
  expect(log).toContain('PLUGIN_UNREADABLE')
  expect(log).not.toContain('very-secret-place')
})

test('--watch sees the modules that a manifest names', async () => {
  const cwd = folder()
  cpSync(guest('echo'), join(cwd, 'main.wasm'))
  writeFileSync(join(cwd, 'manifest.json'), JSON.stringify({ wasm: [{ path: 'main.wasm' }] }))
  const server = start(['manifest.json', '0', '--watch'], {}, { cwd })
  const url = await server.listening()
  cpSync(guest('upper'), join(cwd, 'main.wasm'))
  await server.logged('"changed"')
  expect(await ask(url)).toEqual([200, 'ABC'])
})

test('check sends the smoke requests too', async () => {
  const cwd = folder()
  cpSync(guest('echo'), join(cwd, 'echo.wasm'))
  const config = (answer: string) =>
    `routes:\n  - { url: /, plugin: echo.wasm, smoke: { body: abc, answer: ${answer} } }\n`
  writeFileSync(join(cwd, 'wasm-serve.yaml'), config('abc'))
  expect(await run(['check'], {}, { cwd })).toMatchObject({ code: 0 })
  writeFileSync(join(cwd, 'wasm-serve.yaml'), config('abd'))
  expect(await run(['check'], {}, { cwd })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('smoke request of route /'),
  })
  expect(await run([], {}, { cwd })).toMatchObject({ code: 1 })
})
