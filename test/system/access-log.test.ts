import { expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { exchange, post } from '../support/socket.ts'

const TIME = String.raw`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\]`

test.each([
  ['common', ''],
  ['combined', String.raw` "http://a/\\"b" "agent \\xe9"`],
])('the format %s is text on standard output, in which nobody can forge a line', async (format, more) => {
  const server = start([guest('echo'), '0', '--access-log', '--access-log-format', format])
  const port = Number(new URL(await server.listening()).port)
  const headers = 'Referer: http://a/"b\r\nUser-Agent: agent \u00e9\r\nConnection: close\r\n'
  await exchange(port, Buffer.from(post('hi', headers, '/?a="b'), 'latin1'))
  const line = new RegExp(
    String.raw`^127\.0\.0\.1 - - ${TIME} "POST /\?a=\\"b HTTP/1\.1" 200 2${more}\n`,
    'm',
  )
  await server.printed(line)
  expect(server.stderr()).toBe('')
})

test('who does not read the log costs lines, and no memory without end', { timeout: 60_000 }, async () => {
  const server = start([guest('echo'), '--port', '0', '--access-log', '--access-log-format', 'common'])
  const url = await server.listening()
  server.child.stdout?.pause()
  const long = `/${'a'.repeat(14_000)}`
  const all = 1_400
  for (let asked = 0; asked < all; asked += 40)
    await Promise.all(Array.from({ length: 40 }, async () => (await fetch(url + long)).text()))
  server.child.stdout?.resume()
  await server.logged('dropped') // there is space again
  const last = new Promise<void>((resolve) => {
    server.child.stdout?.on('data', (bytes: Buffer) => bytes.includes('GET /last') && resolve())
  })
  await fetch(`${url}/last`)
  await last
  server.kill('SIGTERM')
  const { code, stdout } = await server.ended
  const lines = stdout.split('\n').filter((line) => line.includes(long))
  expect(code).toBe(0)
  expect(lines.length).toBeGreaterThan(1_000)
  expect(lines.length).toBeLessThan(1_300)
  expect(lines.every((line) => /" 404 \d+$/.test(line))).toBe(true)
})
