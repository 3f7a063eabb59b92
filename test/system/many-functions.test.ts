import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli.ts'
import { guestBytes } from '../support/guest.ts'

/** A folder with a plug-in that has so many functions. */
function folderWith(count: number): string {
  const folder = join(temporaryFolder(), 'plug-ins')
  mkdirSync(folder)
  const functions = Array.from(
    { length: count },
    (_, i) => `(func (export "f${i}") (result i32) (i32.const 0))`,
  )
  writeFileSync(join(folder, 'many.wasm'), guestBytes(`(module ${functions.join('')})`))
  return folder
}

const status = async (url: string, path: string) => (await fetch(url + path, { method: 'POST' })).status

test.each([
  ['a file', (folder: string) => join(folder, 'many.wasm')],
  ['a folder', (folder: string) => folder],
])('of more functions than are served where none is named the first are, with what to do: %s', async (what, source) => {
  const server = start([source(folderWith(101)), '--port', '0'])
  const url = await server.listening()
  await server.logged('many has 101 functions, of which only the first 100 are served')
  const prefix = what === 'a folder' ? '/many' : ''
  expect(await status(url, `${prefix}/f99`)).toBe(200)
  expect(await status(url, `${prefix}/f100`)).toBe(404)
})

test('so many as may be served unasked are', async () => {
  const url = await start([folderWith(100), '--port', '0']).listening()
  expect(await status(url, '/many/f99')).toBe(200)
})

test('those that are named are served, whatever their number', async () => {
  const folder = folderWith(101)
  const one = await start([join(folder, 'many.wasm'), 'f100', '0']).listening()
  expect(await status(one, '/')).toBe(200)
  const all = await start([folder, '--max-functions', '101', '--port', '0']).listening()
  expect(await status(all, '/many/f100')).toBe(200)
  const routes = Array.from({ length: 101 }, (_, i) => ({
    plugin: join(folder, 'many.wasm'),
    function: `f${i}`,
    url: `/${i}`,
  }))
  writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify({ routes }))
  const listed = await start(['-c', join(folder, 'wasm-serve.json'), '--port', '0']).listening()
  expect(await status(listed, '/100')).toBe(200)
})

test('one that comes to a watched folder is served as far, and the log says why', async () => {
  const folder = folderWith(3)
  const server = start([folder, '--watch', '--port', '0', '--drain-ms', '0'])
  const url = await server.listening()
  expect(await status(url, '/many/f1')).toBe(200)
  writeFileSync(
    join(folder, 'more.wasm'),
    guestBytes(`(module ${Array.from({ length: 101 }, (_, i) => `(func (export "f${i}"))`).join('')})`),
  )
  await server.logged('more has 101 functions')
  expect(await status(url, '/many/f1')).toBe(200)
  expect(await status(url, '/more/f99')).toBe(200)
  expect(await status(url, '/more/f100')).toBe(404)
})
