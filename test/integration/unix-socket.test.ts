import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
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

test('the command listens on a socket, says so, and removes it when it ends', async () => {
  const path = join(folder(), 'a.sock')
  const server = start([guest('echo'), '--socket', path])
  expect(await server.listening()).toBe(`unix:${path}`)
  expect(await server.printed('curl')).toContain(`curl --unix-socket ${path} http://localhost/ -d`)
  expect(await post(path, 'hi')).toBe('hi')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
  expect(existsSync(path)).toBe(false)
})

test('the socket of a server that lives is left to it', async () => {
  const path = join(folder(), 'a.sock')
  const server = await listenAll([{ plugin: guest('echo') }], { socket: path })
  const { code, stderr } = await run([guest('echo'), '--socket', path])
  expect([code, stderr]).toEqual([1, expect.stringContaining('another server listens there')])
  expect(await post(path, 'still')).toBe('still')
  await server.drain()
})

test('a file that is no socket is not touched', async () => {
  const path = join(folder(), 'a.txt')
  writeFileSync(path, 'mine')
  const starting = listenAll([{ plugin: guest('echo') }], { socket: path })
  await expect(starting).rejects.toMatchObject({ code: 'WASM_SERVE_LISTEN_FAILED' })
  expect(readFileSync(path, 'utf8')).toBe('mine')
})

test('a path that is too long for a socket is refused, not cut off', async () => {
  const path = join(folder(), 'x'.repeat(120))
  const starting = listenAll([{ plugin: guest('echo') }], { socket: path })
  await expect(starting).rejects.toMatchObject({ code: 'WASM_SERVE_LISTEN_FAILED' })
})

test('a socket in a folder that does not exist is refused for this reason', async () => {
  const path = join(folder(), 'missing', 'a.sock')
  const { code, stderr } = await run([guest('echo'), '--socket', path])
  expect([code, stderr]).toEqual([1, expect.stringContaining('missing does not exist')])
})

test('a connection that never says anything does not hold up the end', async () => {
  const path = join(folder(), 'a.sock')
  const server = await listenAll([{ plugin: guest('echo') }], { socket: path, graceMs: 60_000 })
  const silent = connect(path)
  silent.on('error', () => undefined) // a reset is a way of closing
  const closed = new Promise((resolve) => silent.on('close', resolve))
  await new Promise((resolve) => silent.on('connect', resolve))
  await server.drain()
  await closed
  expect(silent.bytesRead).toBe(0)
})
