import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { listenAll } from '../support/serve.ts'

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-socket-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

async function post(socketPath: string, body: string): Promise<string> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath, method: 'POST', agent: false }, resolve).on('error', reject).end(body)
  })
  return text(answer)
}

test('a request that has begun is answered while the server ends', async () => {
  const path = join(folder(), 'a.sock')
  const server = start([guest('echo'), '--socket', path])
  await server.listening()
  const sending = request({ socketPath: path, method: 'POST', headers: { expect: '100-continue' } })
  const answered = new Promise<IncomingMessage>((resolve) => sending.on('response', resolve))
  await new Promise((resolve) => {
    sending.on('continue', resolve)
    sending.flushHeaders()
  })
  server.kill('SIGTERM')
  await server.logged('closing')
  sending.end('the rest')
  expect(await text(await answered)).toBe('the rest')
  expect((await server.ended).code).toBe(0)
})

test('the socket of a server that was killed is replaced', async () => {
  const path = join(folder(), 'a.sock')
  const killed = start([guest('echo'), '--socket', path])
  await killed.listening()
  killed.kill('SIGKILL')
  await killed.ended
  expect(existsSync(path)).toBe(true)

  const server = await listenAll([{ plugin: guest('echo') }], { socket: path })
  expect(await post(path, 'again')).toBe('again')
  await server.drain()
})
