import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guestBytes } from '../support/guest.ts'

async function ask(url: string, body: string) {
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
