import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import type { ServerOptions } from '../../src/options/options.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'

/*
 * An answer of a stream over HTTP/1.0 ends with its connection: only a reset tells that it is incomplete. Clients of Node.js
 * do not always see one.
 */

const MIB = 2 ** 20
const BROKEN: readonly Step[] = [['start', ''], ['write', 'half'], ['flush'], ['error', 'no']]
const CONNECTION_RESET = 56

const { tls } = localhostTls()

/** A client that waits when nobody reads its output. */
function ask(url: string) {
  const curl = spawn('curl', ['-sSk', '--http1.0', url], { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => void curl.kill())
  return { output: curl.stdout, ended: once(curl, 'close') }
}

test.each([
  ['TCP', {}],
  ['TLS', { tls }],
])('an answer that breaks off ends with a reset: %s', async (_name, options: Partial<ServerOptions>) => {
  const { url } = await serveSteps(BROKEN, {}, options)
  const { output, ended } = ask(url)
  output.resume()
  expect(await ended).toEqual([CONNECTION_RESET, null])
})

test('an answer that breaks off over a Unix socket ends, and the server goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-socket-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'a.sock')
  await serveSteps(BROKEN, {}, { socket: path })
  for (let i = 0; i < 2; i++) {
    const socket = connect(path)
    onTestFinished(() => void socket.destroy())
    socket.write('GET / HTTP/1.0\r\n\r\n')
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 .*half$/s)
  }
})

/** Its guest ends when only buffers have the rest of the answer. */
const FLOOD: readonly Step[] = [['start', ''], { repeat: 16, steps: [['write zeros', MIB]] }]
const BUFFERED = { outputLimit: 0, streamBuffer: 64 * MIB }

test('an answer that takes too much memory ends with a reset, although its guest has ended', async () => {
  const { url, codes, line } = await serveSteps(FLOOD, BUFFERED, { maxUnreadBytes: MIB })
  const { output, ended } = ask(url)
  await codes(17)
  await line(({ msg }) => msg.startsWith('connections that took the most memory were closed'))
  output.resume()
  expect(await ended).toEqual([CONNECTION_RESET, null])
}, 30_000)

test('an answer that is cut off at the end of the server ends with a reset', async () => {
  const { url, codes, drain } = await serveSteps(FLOOD, BUFFERED)
  const { output, ended } = ask(url)
  await codes(17)
  await drain()
  output.resume()
  expect(await ended).toEqual([CONNECTION_RESET, null])
}, 30_000)
