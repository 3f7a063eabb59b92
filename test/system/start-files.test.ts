import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'

const HELLO = fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url))

/** Starts the command, and writes what has been loaded when a request is answered. A CommonJS module would count as a preload. */
const PROBE = `
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { writeFileSync } = require('node:fs')
const { Server } = require('node:http')
const { emit } = Server.prototype
Server.prototype.emit = function (name, ...args) {
  if (name === 'request')
    args[1].once('finish', () =>
      writeFileSync(process.env.LOADED, [...Object.keys(require.cache), ...process.moduleLoadList].join('\\n')))
  return emit.call(this, name, ...args)
}
process.argv.splice(1, 1)
import(process.argv[1])`

test('a start until its first answer loads no file of a package, and none of what getters of Node.js load', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-start-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [probe, loaded] = [join(folder, 'probe.mjs'), join(folder, 'loaded')]
  writeFileSync(probe, PROBE)
  const command = start([HELLO, '--port', '0'], { LOADED: loaded }, { program: [process.execPath, probe] })
  const response = await fetch(await command.listening(), { method: 'POST', body: 'Ada' })
  expect(await response.text()).toContain('Ada')
  await expect.poll(() => readFileSync(loaded, 'utf8').split('\n')).toContain('NativeModule https')
  const names = readFileSync(loaded, 'utf8')
  expect(names).toMatch(/dist\/packed-packages\.cjs/)
  expect(names.match(/node_modules\/.*/g)).toBeNull()
  expect(
    names.match(
      /NativeModule (?:internal\/deps\/undici|internal\/fs\/streams|internal\/crypto\/webcrypto).*/g,
    ),
  ).toBeNull()
})

test('the command starts a thread before it reads the options, if they seem to ask for one', async () => {
  const started = async (...words: string[]) =>
    (await run(['missing.wasm', ...words], { NODE_DEBUG: 'worker' })).stderr.includes('created Worker')
  expect(await started('--workers', '1')).toBe(true)
  expect(await started()).toBe(false)
})
