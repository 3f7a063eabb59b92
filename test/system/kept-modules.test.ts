import { readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'
import { newFolder } from '../support/stores.ts'

/** A guest that is large enough to be kept. */
function largeGuest(name: string, letter: string): string {
  const section = Buffer.concat([Buffer.of(1, 0x78), Buffer.alloc(20_000, letter)])
  const head = Buffer.of(
    0,
    0x80 | (section.length & 127),
    0x80 | ((section.length >> 7) & 127),
    section.length >> 14,
  )
  return file(`large-${name}.wasm`, Buffer.concat([guestBytes(name), head, section]))
}

/** What a start with this plug-in keeps. */
async function keep(plugin: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  expect(await run(['check', plugin], env)).toMatchObject({ code: 0 })
  const folder = join(env.XDG_CACHE_HOME ?? '', 'wasm-serve', 'modules')
  return readdirSync(folder).flatMap((name) =>
    readdirSync(join(folder, name)).map((one) => join(folder, name, one)),
  )
}

test('the next start uses what was kept of a module, and no other one does', async () => {
  const env = { XDG_CACHE_HOME: newFolder() }
  const [echo, upper] = [largeGuest('echo', 'e'), largeGuest('upper', 'u')]
  const [ofEcho = ''] = await keep(echo, env)
  const both = await keep(upper, env)
  const ofUpper = both.find((path) => path !== ofEcho) ?? ''
  expect(both).toHaveLength(2)
  expect(await keep(upper, env)).toHaveLength(2)

  const ask = async () => {
    const server = start([echo, '0'], env)
    const answer = await fetch(await server.listening(), { method: 'POST', body: 'abc' })
    server.kill('SIGTERM')
    await server.ended
    return answer.text()
  }
  expect(await ask()).toBe('abc')
  renameSync(ofUpper, ofEcho) // what only this user could do
  expect(await ask()).toBe('ABC')
})
