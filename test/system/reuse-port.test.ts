import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { open, post } from '../support/socket.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const canShare = process.platform === 'linux' && (major > 22 || (major === 22 && minor >= 12))

const echo = guest('echo')

/** What says which version has answered: a header. */
const share = (port: string, version: string) => [
  echo,
  port,
  '--reuse-port',
  '--header',
  `x-version=${version}`,
]

test.runIf(canShare)('a new process takes over from one that ends, under load, at no request', async () => {
  const old = start(share('0', 'old'))
  const url = await old.listening()
  const load = startLoad({ url, connections: 50 })
  onTestFinished(async () => void (await load.stop()))
  await load.answered(500)

  const next = start(share(new URL(url).port, 'new'))
  expect(await next.listening()).toBe(url)
  await load.answered(500)
  old.child.kill('SIGTERM')
  expect(await old.ended).toMatchObject({ code: 0, signal: null })
  await load.answered(500)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })

  const client = await open(Number(new URL(url).port))
  client.send(post('abc'))
  expect(await client.answer()).toMatchObject({ status: 200, headers: { 'x-version': 'new' } })
})

test.runIf(canShare)('without it a second process is refused, also beside one that shares', async () => {
  const url = await start(share('0', 'old')).listening()
  const { code, stderr } = await run([echo, new URL(url).port])
  expect([code, stderr]).toEqual([1, expect.stringContaining('the port is in use')])
})

test.skipIf(canShare)('where Node.js or the system cannot, it is refused', async () => {
  const { code, stderr } = await run(share('0', 'old'))
  expect([code, stderr]).toEqual([1, expect.stringContaining('reusePort')])
})

test('it has no effect with a Unix socket', async () => {
  const { code, stderr } = await run([echo, '--socket', 'a.sock', '--reuse-port'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('has no effect with a Unix socket')])
})
