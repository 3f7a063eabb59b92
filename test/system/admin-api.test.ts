import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startApi, startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'

const ECHO = guestBytes('echo')
const UPPER = guestBytes('upper')

test('what is changed outlives kill -9, and all of it', { timeout: 60_000 }, async () => {
  const cwd = temporaryFolder()
  cpSync(guest('echo'), join(cwd, 'echo.wasm'))
  const args = ['echo.wasm', '--state', 'state']
  const first = await startApi(start, args, cwd)
  await first.api('PUT', '/api/plugins/echo', UPPER)
  await first.api('PUT', '/api/plugins/more', ECHO)
  await first.api('POST', '/api/routes', { plugin: 'more', url: '/more', config: { a: 'b' } })
  const last = await first.api('POST', '/api/routes', { plugin: 'more', url: '/last' })
  expect(last.status).toBe(201)
  first.child.kill('SIGKILL')
  await first.ended

  const second = await startApi(start, args, cwd)
  expect(await second.post('/', 'abc')).toEqual([200, 'ABC'])
  expect(await second.post('/more', 'abc')).toEqual([200, 'abc'])
  expect(await second.post('/last', 'abc')).toEqual([200, 'abc'])
  const views = ['/api/plugins', '/api/routes']
  await second.api('DELETE', `/api/routes/${last.body.route.id}`)
  const before = await Promise.all(views.map(async (path) => (await second.api('GET', path)).body))
  // Killed in the middle of changes, it has what was answered, and perhaps one more.
  const changes = (async () => {
    for (let n = 0; ; n++) {
      const answer = await second
        .api('POST', '/api/routes', { plugin: 'more', url: `/n${n}` })
        .catch(() => undefined)
      if (answer?.status !== 201) return n
      if (n === 3) second.child.kill('SIGKILL')
    }
  })()
  const answered = await changes
  const third = await startApi(start, args, cwd)
  for (let n = 0; n < answered; n++) expect(await third.post(`/n${n}`, 'abc')).toEqual([200, 'abc'])
  const { body } = await third.api('GET', '/api/routes')
  expect(body.length - answered - (before[1] as unknown[]).length).toBeLessThanOrEqual(1)
  expect((await third.api('GET', '/api/plugins')).body).toMatchObject([{ name: 'echo' }, { name: 'more' }])
})

test('replacing and rolling back under load costs no request', { timeout: 60_000 }, async () => {
  const { api, url } = await startWithAdmin([guest('echo')])
  const load = startLoad({
    url: `${url}/`,
    connections: 20,
    body: (id) => `id ${id}`,
    isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
  })
  for (let time = 0; time < 10; time++) {
    expect((await api('PUT', '/api/plugins/echo', UPPER)).status).toBe(200)
    await load.answered(20)
    expect((await api('POST', '/api/plugins/echo/rollback')).status).toBe(200)
    await load.answered(20)
  }
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
})
