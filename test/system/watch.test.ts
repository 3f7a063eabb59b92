import { once } from 'node:events'
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { watchFiles } from '../../src/deploy/watch.ts'
import { changing } from '../support/change.ts'
import { start } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

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

test('a change that fails for a passing reason is made again, and its failure is reported once', async () => {
  let isDown = true
  const source = createServer((_request, response) => {
    response.statusCode = isDown ? 503 : 200
    response.setHeader('content-type', 'application/wasm').end(isDown ? '' : guestBytes('upper'))
  }).listen(0, '127.0.0.1')
  await once(source, 'listening')
  onTestFinished(() => void source.close())
  const plugin = `http://127.0.0.1:${(source.address() as AddressInfo).port}/upper.wasm`
  const { deployments, attempt, to, post } = await changing([{ plugin: guest('echo') }])
  onTestFinished(watchFiles(deployments))
  expect(await attempt(to([{ plugin }]))).toMatchObject({ ok: false })
  const attempts = vi.spyOn(deployments, 'attempt')
  await expect.poll(() => attempts.mock.calls.length, { timeout: 10_000 }).toBe(2)
  isDown = false
  await expect.poll(() => deployments.behind, { timeout: 10_000 }).toBeUndefined()
  expect((await post('/', 'abc')).body).toBe('ABC')
  expect(deployments.log).toMatchObject({ applied: 1, refused: 0 }) // whoever asked for it has the reason
})

test(
  'folders through links are watched, and folders that are removed and made again',
  { timeout: 30_000 },
  async () => {
    const [cwd, elsewhere] = [folder(), folder()]
    mkdirSync(join(cwd, 'plugins'))
    writeFileSync(join(cwd, 'plugins', 'one.wasm'), guestBytes('echo'))
    writeFileSync(join(elsewhere, 'two.wasm'), guestBytes('echo'))
    symlinkSync(elsewhere, join(cwd, 'plugins', 'linked'))
    symlinkSync(cwd, join(cwd, 'plugins', 'round'))
    const server = start(['plugins', '0', '--watch'], {}, { cwd })
    const url = await server.listening()
    writeFileSync(join(elsewhere, 'three.wasm'), guestBytes('upper'))
    await server.logged('"changed"', 1)
    expect(await ask(`${url}/linked/three`)).toEqual([200, 'ABC'])
    rmSync(join(cwd, 'plugins'), { recursive: true })
    await server.logged('not changed')
    mkdirSync(join(cwd, 'plugins'))
    symlinkSync('four.wasm', join(cwd, 'plugins', 'four.wasm')) // in circles
    await server.logged('not changed', 2)
    rmSync(join(cwd, 'plugins', 'four.wasm'))
    writeFileSync(join(cwd, 'plugins', 'four.wasm'), guestBytes('echo'))
    await server.logged('"changed"', 2)
    expect([await ask(`${url}/four`), (await ask(`${url}/one`))[0]]).toEqual([[200, 'abc'], 404])
    expect(server.stderr()).not.toContain('INTERNAL')
  },
)

test(
  'a config file that is found without a flag is watched while it is missing',
  { timeout: 30_000 },
  async () => {
    const cwd = folder()
    const write = (name: string, plugin: string) =>
      writeFileSync(join(cwd, name), JSON.stringify({ port: 0, watch: true, routes: [{ url: '/', plugin }] }))
    write('wasm-serve.json', guest('echo'))
    const server = start([], {}, { cwd })
    const url = await server.listening()
    rmSync(join(cwd, 'wasm-serve.json'))
    await server.logged('not changed')
    write('wasm-serve.yaml', guest('upper'))
    await server.logged('"changed"')
    expect(await ask(url)).toEqual([200, 'ABC'])
  },
)

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
