import { once } from 'node:events'
import { cpSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'

async function ask(url: string, body = 'abc') {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()]
}

test('SIGHUP while it starts is no end: what is read may be old, and is read again', async () => {
  const asked = createServer()
  onTestFinished(() => void asked.close())
  asked.listen(0, '127.0.0.1')
  await once(asked, 'listening')
  const origin = `http://127.0.0.1:${(asked.address() as AddressInfo).port}`
  const server = start([`${origin}/echo.wasm`, '--port', '0', '--cache-folder', temporaryFolder()])
  const [, first] = await once(asked, 'request')
  server.kill('SIGHUP')
  asked.on('request', (_request, response) => response.end(guestBytes('echo')))
  first.end(guestBytes('echo'))
  expect(await ask(await server.listening(), 'abc')).toEqual([200, 'abc'])
  await server.logged('"changed"')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0 })
})

test(
  'SIGHUP reads the config file and the plug-ins again, under load, 20 times',
  { timeout: 120_000 },
  async () => {
    const cwd = temporaryFolder()
    const config = (name: string) => `port: 0\nroutes:\n  - { url: /, plugin: ${name}.wasm }\n`
    for (const name of ['echo', 'upper']) cpSync(guest(name), join(cwd, `${name}.wasm`))
    writeFileSync(join(cwd, 'wasm-serve.yaml'), config('echo'))
    const server = start([], {}, { cwd })
    const url = await server.listening()
    const load = startLoad({
      url: `${url}/`,
      connections: 20,
      body: (id) => `id ${id}`,
      isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
    })
    for (let time = 1; time <= 20; time++) {
      const name = time % 2 ? 'upper' : 'echo'
      writeFileSync(join(cwd, 'next.yaml'), config(name))
      renameSync(join(cwd, 'next.yaml'), join(cwd, 'wasm-serve.yaml'))
      server.kill('SIGHUP')
      await Promise.all([server.logged('"changed"', time), load.answered(20)])
      expect(await ask(url)).toEqual([200, time % 2 ? 'ABC' : 'abc'])
    }
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
    server.kill('SIGTERM')
    expect(await server.ended).toMatchObject({ code: 0 })
  },
)
