import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli-process.ts'

const HELLO = fileURLToPath(new URL('../../plugins/hello/hello.wasm', import.meta.url))

/** Writes what has been loaded when a request is answered. */
const PROBE = `
const { writeFileSync } = require('node:fs')
const { Server } = require('node:http')
const { emit } = Server.prototype
Server.prototype.emit = function (name, ...args) {
  if (name === 'request')
    args[1].once('finish', () =>
      writeFileSync(process.env.LOADED, [...Object.keys(require.cache), ...process.moduleLoadList].join('\\n')))
  return emit.call(this, name, ...args)
}`

test('a start until its first answer loads no validator, no other host, and none of what getters of Node.js load', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-start-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [probe, loaded] = [join(folder, 'probe.cjs'), join(folder, 'loaded')]
  writeFileSync(probe, PROBE)
  const command = start(
    [HELLO, '--port', '0'],
    { LOADED: loaded },
    { program: [process.execPath, '--require', probe] },
  )
  const response = await fetch(await command.listening(), { method: 'POST', body: 'Ada' })
  expect(await response.text()).toContain('Ada')
  await expect.poll(() => readFileSync(loaded, 'utf8').split('\n')).toContain('NativeModule https')
  const names = readFileSync(loaded, 'utf8')
  expect(names).toMatch(/node_modules\/fastify\//)
  expect(names.match(/node_modules\/(?:ajv|@extism)\/.*/g)).toBeNull()
  expect(
    names.match(
      /NativeModule (?:internal\/deps\/undici|internal\/fs\/streams|internal\/crypto\/webcrypto).*/g,
    ),
  ).toBeNull()
})
