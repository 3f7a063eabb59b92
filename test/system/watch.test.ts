import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { watchFiles } from '../../src/deploy/watch.ts'
import { changing } from '../support/change.ts'
import { start } from '../support/cli.ts'
import { file, guestBytes } from '../support/guest.ts'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-change-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function ask(url: string, body = 'abc') {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()]
}

test('watched files are served when they have changed, and not before they are whole', async () => {
  const whole = guestBytes('upper')
  const path = file('watched.wasm', guestBytes('echo'))
  const { deployments, post } = await changing([{ plugin: path }])
  const stop = watchFiles(deployments)
  file('watched.wasm', whole.slice(0, 60))
  await expect.poll(() => deployments.log.refused, { timeout: 10_000 }).toBe(1)
  expect((await post('/', 'abc')).body).toBe('abc')
  file('watched.wasm', whole)
  await expect.poll(() => deployments.log.applied, { timeout: 10_000 }).toBe(1)
  expect((await post('/', 'abc')).body).toBe('ABC')
  stop()
})

test(
  '--watch serves what changes in a folder: plug-ins that change, come and go',
  { timeout: 60_000 },
  async () => {
    const cwd = folder()
    mkdirSync(join(cwd, 'plugins'))
    const put = (name: string, bytes: Uint8Array) => {
      writeFileSync(join(cwd, 'new'), bytes)
      renameSync(join(cwd, 'new'), join(cwd, 'plugins', `${name}.wasm`))
    }
    put('one', guestBytes('echo'))
    const server = start(['plugins', '0', '--watch'], {}, { cwd })
    const url = await server.listening()
    expect(await ask(`${url}/one`)).toEqual([200, 'abc'])
    put('one', guestBytes('upper'))
    await server.logged('"changed"', 1)
    expect(await ask(`${url}/one`)).toEqual([200, 'ABC'])
    put('two', guestBytes('echo'))
    await server.logged('"changed"', 2)
    expect(await ask(`${url}/two`)).toEqual([200, 'abc'])
    rmSync(join(cwd, 'plugins', 'one.wasm'))
    await server.logged('"changed"', 3)
    expect((await ask(`${url}/one`))[0]).toBe(404)
    rmSync(join(cwd, 'plugins', 'two.wasm'))
    await server.logged('not changed')
    expect(await ask(`${url}/two`)).toEqual([200, 'abc'])
  },
)
