import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startApi, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest, moduleNumber } from '../support/guest.ts'
import { openSocket } from '../support/web-socket.ts'

/** A folder with plug-ins that serve connections, another one, and a config file. */
function openFolder(route: object) {
  const cwd = temporaryFolder()
  for (const name of ['socket', 'echo']) copyFileSync(guest(name), join(cwd, `${name}.wasm`))
  let other = 0
  const writeOther = () => writeFileSync(join(cwd, 'other.wasm'), moduleNumber(other++))
  const socket = { url: '/socket', plugin: 'socket.wasm', function: 'echo', contract: 'websocket', ...route }
  const write = (own: object, others: object[]) =>
    writeFileSync(
      join(cwd, 'wasm-serve.json'),
      JSON.stringify({ routes: [{ ...socket, ...own }, ...others] }),
    )
  const plain = { url: '/other', plugin: 'other.wasm' }
  writeOther()
  write({}, [plain])
  return {
    cwd,
    /** Changes that leave the route of the connection as it is. */
    others: {
      'another header': () => write({}, [{ ...plain, headers: { 'x-a': '1' } }]),
      'other bytes': writeOther,
      'another route': () => write({}, [plain, { ...plain, url: '/more' }]),
      nothing: () => write({}, [plain, { ...plain, url: '/more' }]),
    },
    changeOwn: () => write({ headers: { 'x-a': '1' } }, [plain]),
  }
}

const PER = [
  { websocketPer: 'message', plugin: 'echo.wasm', function: 'echo' },
  { websocketPer: 'connection', workers: 1 },
]
const PROCESSES = [[], ['--processes', '2']]

test.each(
  PER.flatMap((route) => PROCESSES.map((flags) => [route, flags] as const)),
)('connections outlive each kind of reload, until their route changes: %j %j', async (route, flags) => {
  const { cwd, others, changeOwn } = openFolder(route)
  const running = await startApi(start, flags, cwd)
  const { socket, next, closed } = await openSocket(Number(new URL(running.url).port), '/socket')
  const ways = {
    SIGHUP: async () => running.kill('SIGHUP'),
    'POST /api/reload': () => running.api('POST', '/api/reload'),
  }
  let changes = 0
  for (const [way, reload] of Object.entries(ways)) {
    for (const [what, change] of Object.entries(others)) {
      change()
      await reload()
      await running.logged('"changed"', ++changes)
      socket.send(`${way}, ${what}`)
      expect(await next()).toBe(`${way}, ${what}`)
    }
  }
  const edits = [
    () => running.api('PUT', '/api/plugins/more', moduleNumber(1_000)),
    () => running.api('POST', '/api/routes', { plugin: 'more', url: '/added' }),
  ]
  for (const edit of edits) {
    expect((await edit()).body.change).toMatchObject({ ok: true })
    changes++
    socket.send('edit')
    expect(await next()).toBe('edit')
  }
  changeOwn()
  running.kill('SIGHUP')
  expect(await closed).toEqual([1001, ''])
})

test.each(PROCESSES)('and a reload because files have changed: %j', async (...flags) => {
  const { cwd, others, changeOwn } = openFolder({})
  const running = await startApi(start, ['--watch', ...flags], cwd)
  const { socket, next, closed } = await openSocket(Number(new URL(running.url).port), '/socket')
  let changes = 0
  for (const [what, change] of Object.entries(others)) {
    if (what === 'nothing') continue // it would not be noticed
    change()
    await running.logged('"changed"', ++changes)
    socket.send(what)
    expect(await next()).toBe(what)
  }
  changeOwn()
  expect(await closed).toEqual([1001, ''])
})

test.each(PROCESSES)('and with flags alone: %j', async (...flags) => {
  const { cwd } = openFolder({})
  const words = ['socket.wasm', 'echo', '--url', '/socket', '--contract', 'websocket']
  const running = await startApi(start, [...words, ...flags], cwd)
  const { socket, next, closed } = await openSocket(Number(new URL(running.url).port), '/socket')
  for (let changes = 1; changes <= 2; changes++) {
    running.kill('SIGHUP')
    await running.logged('"changed"', changes)
    socket.send('a')
    expect(await next()).toBe('a')
  }
  writeFileSync(join(cwd, 'socket.wasm'), moduleNumber(1))
  running.kill('SIGHUP')
  expect(await closed).toEqual([1001, ''])
})
