import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { type Running, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

/** Runs the command where the process has a limit of the system. */
function startWith(limit: string, ...args: string[]): Running {
  const limited = `ulimit ${limit} && exec "$@"`
  return start([guest('echo'), '0', ...args], {}, { program: ['sh', '-c', limited, 'sh', process.execPath] })
}

test('with too few open files to start the command says so, wherever Node.js can load it', async () => {
  for (let files = 18, isListening = false; !isListening; files++) {
    const server = startWith(`-n ${files}`)
    isListening = await server.listening().then(
      () => true,
      () => false,
    )
    if (isListening) server.kill('SIGTERM')
    const { code, stderr } = await server.ended
    if (/^wasm-serve: /m.test(stderr))
      expect([code, stderr]).toEqual([1, expect.stringContaining(`may have ${files} (ulimit -n`)])
    expect(stderr).not.toContain('this is a bug')
    expect(files).toBeLessThan(40)
  }
})

test('too few open files for the threads are said, and are no bug and no mistake', async () => {
  const { code, stderr } = await startWith('-n 60', '--workers', '20').ended
  expect([code, stderr]).toEqual([1, expect.stringContaining('may have 60 (ulimit -n')])
  expect(stderr).not.toContain('this is a bug')
})

test.each([
  ['inline', []],
  ['in threads', ['--workers', '1']],
  ['with the SDK', ['--runtime', 'sdk']],
])('too few addresses for the memories of guests %s are said, with the remedy', async (_what, args) => {
  const { code, stderr } = await startWith(`-v ${8 * 2 ** 20}`, ...args).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining('ulimit -v')])
  expect(stderr).toContain('MemoryMax=')
  expect(stderr).not.toContain('node:internal')
})

test.each([
  ['one process', 1, []],
  ['each serving process', 2, ['--processes', '2']],
])(
  'file descriptors that become short are said once by %s, which is not ready until they are free',
  {
    timeout: 60_000,
  },
  async (_what, processes, args) => {
    const server = startWith('-n 128', '--probes', '127.0.0.1:0', ...args)
    const { port, hostname } = new URL(await server.listening())
    await server.logged('maxConnections do not fit', 1)
    const probes = /probes is on (\S+)/.exec(server.stderr())?.[1] ?? ''
    const ready = async () => {
      const answer = await fetch(`${probes}/readyz`)
      return [answer.status, String((await answer.json()).reasons)]
    }
    expect(await ready()).toEqual([200, ''])
    const sockets: Socket[] = []
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    // One after another: with processes, the primary holds each for a moment.
    while (sockets.length < 98 * processes) {
      const socket = connect(Number(port), hostname)
      sockets.push(socket)
      socket.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n')
      await once(socket, 'data')
    }
    await server.logged('descriptors are short', processes)
    await expect
      .poll(ready, { timeout: 10_000 })
      .toEqual([503, expect.stringMatching(/\d of 128 file descriptors are in use/)])
    for (const socket of sockets) socket.destroy()
    await server.logged('enough file descriptors are free again', processes)
    await expect.poll(ready, { timeout: 10_000 }).toEqual([200, ''])
    expect(server.stderr().match(/descriptors are short/g)).toHaveLength(processes)
  },
)
