import { beforeEach, describe, expect, test } from 'vitest'
import { type Api, startApi, TOKEN } from '../support/admin-api.ts'
import { openPage } from '../support/browser.ts'
import { type Running, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { childrenOf, linesOf, until } from '../support/processes.ts'
import { describeWith } from '../support/tools.ts'

describe('of a server with processes', () => {
  let server: Running & Api

  beforeEach(async () => {
    server = await startApi(start, [guest('echo'), '--processes', '2', '--grace-ms', '500'])
  })

  const pids = () => childrenOf(server.child.pid ?? 0)
  const text = async (path: string) => (await fetch(server.adminUrl + path)).text()

  /** Sends so many requests, each to the process that has the fewest connections. */
  const send = async (requests: number) => {
    const load = startLoad({ url: server.url, connections: 10 })
    await load.answered(requests)
    const { answers } = await load.stop()
    return answers
  }

  test('the metrics are the sum of all processes, also of those that have ended', async () => {
    const answers = await send(500)
    const calls = async (path: string) =>
      [...(await text(path)).matchAll(/^wasm_serve_calls_total\{(.*)outcome="ok"\} (\d+)$/gm)].map(
        ([, labels = '', count]) => [/process="(\d)"/.exec(labels)?.[1], Number(count)] as const,
      )
    expect(await calls('/metrics')).toEqual([[undefined, answers]])
    const each = await calls('/metrics?by=process')
    expect(each.map(([process]) => process).sort()).toEqual(['1', '2'])
    expect(each.reduce((sum, [, count]) => sum + count, 0)).toBe(answers)
    for (const [, count] of each) expect(count).toBeGreaterThan(0)

    process.kill(pids()[0] ?? 0, 'SIGKILL')
    await until(() => linesOf(server, 'a serving process was started').length === 1)
    expect(await calls('/metrics')).toEqual([[undefined, answers]])
    const more = await send(100)
    expect(await calls('/metrics')).toEqual([[undefined, answers + more]])
    expect(await text('/metrics')).toMatch(/^wasm_serve_process_lost_total\{process="\d"\} 1$/m)
    expect((await fetch(`${server.adminUrl}/metrics?by=route`)).status).toBe(400)
  })

  test('the API lists them, and readiness counts them', async () => {
    const { body } = await server.api('GET', '/api/processes')
    expect(body).toMatchObject([
      { number: 1, state: 'serving', lost: 0 },
      { number: 2, state: 'serving', lost: 0 },
    ])
    expect(pids().sort()).toEqual(body.map(({ pid }: { pid: number }) => pid).sort())
    expect(JSON.parse(await text('/readyz'))).toEqual({
      ready: true,
      reasons: [],
      processes: [
        { number: 1, state: 'serving' },
        { number: 2, state: 'serving' },
      ],
    })
    for (const pid of pids()) process.kill(pid, 'SIGKILL')
    await until(() => linesOf(server, 'a serving process was lost').length === 2)
    expect(JSON.parse(await text('/readyz'))).toMatchObject({
      ready: false,
      reasons: ['no serving process runs'],
    })
    await until(() => linesOf(server, 'a serving process was started').length === 2)
    expect((await server.api('GET', '/api/processes')).body).toMatchObject([
      { state: 'serving', lost: 1, lastEnd: 'SIGKILL' },
      { state: 'serving', lost: 1, lastEnd: 'SIGKILL' },
    ])
  })

  test('a restart by the API replaces all, without losing a request', async () => {
    const load = startLoad({ url: server.url, connections: 20 })
    await load.answered(200)
    const before = pids()
    const { status, body } = await server.api('POST', '/api/restart')
    expect([status, body.map(({ state }: { state: string }) => state)]).toEqual([200, ['serving', 'serving']])
    await load.answered(200)
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
    expect(pids().filter((pid) => before.includes(pid))).toEqual([])
  })

  test('a test request reaches the live routes', async () => {
    const body = Buffer.from('abc').toString('base64')
    const { body: answer } = await server.api('POST', '/api/call', { url: '/', body })
    expect(answer).toMatchObject({ status: 200, body })
    expect((await server.api('POST', '/api/call', { url: '/nowhere' })).body).toMatchObject({ status: 404 })
  })

  test('a streamed test request does, too', async () => {
    const answer = await fetch(`${server.adminUrl}/api/streams`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: '{"url":"/"}',
    })
    const lines = (await answer.text()).trim().split('\n')
    expect(lines.map((line) => JSON.parse(line))).toContainEqual({ ms: expect.any(Number), trailers: {} })
  })

  test('the log has the lines of all processes', async () => {
    await server.api('POST', '/api/restart')
    const { body } = await server.api('GET', '/api/logs')
    const times = body.map(({ time }: { time: string }) => time)
    expect(times).toEqual([...times].sort())
    expect(body.some(({ msg }: { msg: string }) => msg === 'all serving processes were replaced')).toBe(true)
  })
})

test('the API describes the routes of processes as those of one process', async () => {
  const described = async (...flags: string[]) => {
    const { api } = await startApi(start, [guest('echo'), '--mcp', ...flags])
    const [{ id: _, ...route }] = (await api('GET', '/api/routes')).body
    return route
  }
  const route = await described()
  expect(route).toMatchObject({ tool: { name: 'echo', isOnly: false } })
  expect(await described('--processes', '2')).toEqual(route)
})

test('the primary answers probes, without an admin listener', async () => {
  const server = start([guest('echo'), '--port', '0', '--processes', '2', '--probes', '127.0.0.1:0'])
  const url = await server.listening()
  const probes = /listener for probes is on (\S+)/.exec(server.stderr())?.[1] ?? ''
  const load = startLoad({ url, connections: 10 })
  await load.answered(200)
  const { answers } = await load.stop()
  const metrics = async (query: string) => (await fetch(`${probes}/metrics${query}`)).text()
  expect(await metrics('')).toMatch(
    new RegExp(`^wasm_serve_calls_total\\{.*outcome="ok"\\} ${answers}$`, 'm'),
  )
  expect((await metrics('?by=process')).match(/outcome="ok"/g)).toHaveLength(2)
  const ready = async () => (await (await fetch(`${probes}/readyz`)).json()).reasons
  expect(await ready()).toEqual([])
  for (const pid of childrenOf(server.child.pid ?? 0)) process.kill(pid, 'SIGKILL')
  await until(() => linesOf(server, 'a serving process was lost').length === 2)
  expect(await ready()).toEqual(['no serving process runs'])
})

test('a server without processes lists none, and has none to restart', async () => {
  const server = await startApi(start, [guest('echo')])
  expect((await server.api('GET', '/api/processes')).body).toEqual([])
  expect((await server.api('POST', '/api/restart')).status).toBe(409)
  const ready = await fetch(`${server.adminUrl}/readyz`, { headers: { authorization: `Bearer ${TOKEN}` } })
  expect(await ready.json()).toEqual({ ready: true, reasons: [] })
})

describeWith(['chromium'], () => {
  test('the console shows each process, and replaces all', async () => {
    const server = await startApi(start, [guest('echo'), '--processes', '2', '--grace-ms', '500'])
    const { page, mishaps } = await openPage(server.adminUrl)
    await page.goto(`${server.adminUrl}/#token=${TOKEN}`)
    await page.getByRole('link', { name: 'Processes' }).click()
    const rows = page.getByRole('table', { name: 'Serving processes, by number' }).locator('tbody tr')
    await rows.nth(1).waitFor()
    const { body } = await server.api('GET', '/api/processes')
    for (const [index, { pid }] of body.entries()) {
      expect(await rows.nth(index).textContent()).toContain(`pid ${pid}`)
      expect(await rows.nth(index).locator('[data-label="State"]').textContent()).toBe('Serving')
    }
    await page.getByRole('button', { name: 'Replace all, one after another' }).click()
    await page.getByText('All processes were replaced.').waitFor()
    await expect
      .poll(() => rows.nth(1).textContent(), { timeout: 20_000 })
      .not.toContain(`pid ${body[1].pid}`)
    await expect
      .poll(() => rows.nth(1).locator('[data-label="Memory"]').textContent(), { timeout: 20_000 })
      .toMatch(/MiB/)
    expect(mishaps).toEqual([])
  })

  test('the console of a server that is one process says so', async () => {
    const server = await startApi(start, [guest('echo')])
    const { page, mishaps } = await openPage(server.adminUrl)
    await page.goto(`${server.adminUrl}/#token=${TOKEN}`)
    await page.getByRole('link', { name: 'Processes' }).click()
    await page.getByText('This server is one process.').waitFor()
    expect(await page.getByRole('button', { name: 'Replace all' }).isDisabled()).toBe(true)
    expect(mishaps).toEqual([])
  })
})
