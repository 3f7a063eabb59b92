import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startApi, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { childrenOf, linesOf, startProcesses, until } from '../support/processes.ts'
import { open, post } from '../support/socket.ts'

/** A server with three processes and the admin API. */
async function startThree(...flags: string[]) {
  const grace = flags.includes('--grace-ms') ? [] : ['--grace-ms', '1000']
  const server = await startApi(start, [guest('echo'), '--processes', '3', ...grace, ...flags])
  const pids = () => childrenOf(server.child.pid ?? 0)
  onTestFinished(() => signal(pids(), 'SIGKILL'))
  return {
    ...server,
    pids,
    lines: (message: string) => linesOf(server, message),
    change: (name: string) => server.api('PUT', '/api/plugins/echo', readFileSync(guest(name))),
    /** The primary has turned its event loop. */
    seen: () => server.api('GET', '/api/processes'),
    /** The answers of new connections, one after another. */
    async answers(count: number) {
      const bodies = new Set<string>()
      for (let each = 0; each < count; each++) {
        const client = await open(Number(new URL(server.url).port))
        client.send(post('abc'))
        bodies.add(String((await client.answer())?.body))
        client.socket.destroy()
      }
      return [...bodies]
    },
  }
}

function signal(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name)
    } catch {
      // It has ended.
    }
  }
}

function areGone(pids: readonly number[]): boolean {
  return pids.every((pid) => {
    try {
      return !process.kill(pid, 0)
    } catch {
      return true
    }
  })
}

/** Waits until a process is stopped, or has ended. */
async function stopped(pids: readonly number[]): Promise<void> {
  await until(() =>
    pids.every((pid) => {
      try {
        return /^\d+ \(.*\) [TtZ]/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
      } catch {
        return true
      }
    }),
  )
}

describe('a stopped process', () => {
  test('is left out of a change, and killed; one that is continued late serves nothing old', async () => {
    const server = await startThree()
    const [first = 0, ...others] = server.pids()
    signal([first], 'SIGSTOP')
    const { status } = await server.change('upper')
    expect(status).toBe(200)
    signal([first], 'SIGCONT')
    await until(() => areGone([first]) && server.lines('a serving process was started').length === 1)
    expect(await server.answers(12)).toEqual(['ABC'])
    expect(others.every((pid) => server.pids().includes(pid))).toBe(true)
  })

  test('does not keep the replacements of the others from serving while a change waits for it', async () => {
    const server = await startThree()
    const [first = 0, ...others] = server.pids()
    signal([first], 'SIGSTOP')
    const changing = server.change('upper')
    signal(others, 'SIGKILL')
    await until(() => server.lines('a serving process was started').length === 2)
    expect(server.lines('a serving process is silent for too long: killing it')).toEqual([])
    expect((await changing).status).toBe(200)
    await until(() => server.lines('a serving process was started').length === 3)
    expect(await server.answers(12)).toEqual(['ABC'])
  })

  test('that stopped at any point of a change leaves one state', async () => {
    const server = await startThree()
    let last = 'abc'
    for (const [place, name] of ['upper', 'echo', 'upper', 'echo'].entries()) {
      const lost = server.lines('a serving process was lost').length
      const changing = server.change(name)
      for (let each = 0; each < 4 * place; each++) await server.seen()
      const [pid = 0] = server.pids()
      signal([pid], 'SIGSTOP')
      const { status, body } = await changing
      if (status === 200) last = name === 'upper' ? 'ABC' : 'abc'
      else expect([status, body.code]).toEqual([503, 'WASM_SERVE_PROCESS_ENDED'])
      signal([pid], 'SIGCONT')
      await until(() => areGone([pid]) === server.lines('a serving process was lost').length > lost)
      await until(
        () =>
          server.lines('a serving process was started').length ===
          server.lines('a serving process was lost').length,
      )
      expect(await server.answers(9)).toEqual([last])
    }
  })

  test('is shown as silent, and all of them make the server unready', async () => {
    const server = await startThree()
    signal(server.pids(), 'SIGSTOP')
    await until(() => server.lines('a serving process is silent').length === 3)
    const answer = await fetch(`${server.adminUrl}/readyz`)
    expect([answer.status, await answer.json()]).toMatchObject([
      503,
      { reasons: ['the serving processes are silent'], processes: Array(3).fill({ state: 'silent' }) },
    ])
    expect((await server.api('GET', '/api/processes')).body).toMatchObject(Array(3).fill({ state: 'silent' }))
    const metrics = await (await fetch(`${server.adminUrl}/metrics`)).text()
    expect(metrics).toMatch(/^wasm_serve_process_up\{process="1"\} 0$/m)
    expect(
      Number(/^wasm_serve_process_silent_seconds\{process="1"\} (.+)$/m.exec(metrics)?.[1]),
    ).toBeGreaterThan(4)
    signal(server.pids(), 'SIGCONT')
    await until(() => server.lines('a serving process responds again').length === 3)
    expect((await fetch(`${server.adminUrl}/readyz`)).status).toBe(200)
    expect(await server.answers(6)).toEqual(['abc'])
  })

  test('is replaced by option', async () => {
    const server = await startThree('--process-silent-ms', '3000')
    signal(server.pids(), 'SIGSTOP')
    expect(await server.answers(1)).toEqual(['abc'])
    expect(server.lines('a serving process was lost').length).toBeGreaterThan(0)
  })

  test.each(['SIGHUP', 'SIGUSR2'] as const)('with all others does not make a %s vain', async (name) => {
    const cwd = temporaryFolder()
    const write = (plugin: string) =>
      writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ routes: [{ url: '/', plugin }] }))
    write(guest('echo'))
    const server = await startProcesses(['--processes', '2', '--grace-ms', '1000'], {}, cwd)
    const before = server.pids()
    write(guest('upper'))
    signal(before, 'SIGSTOP')
    server.kill(name)
    await until(() => server.lines('changed').length === 1)
    const client = await open(Number(new URL(server.url).port))
    client.send(post('abc'))
    expect(String((await client.answer())?.body)).toBe('ABC')
    await until(() => areGone(before))
  })

  test('that drains for a restart ends, and the restart goes on', async () => {
    const server = await startThree()
    const before = server.pids()
    server.kill('SIGUSR2')
    await until(() => server.lines('closing').length === 1)
    signal(before, 'SIGSTOP')
    await until(() => server.lines('all serving processes were replaced').length === 1)
    expect(areGone(before)).toBe(true)
    expect(await server.answers(6)).toEqual(['abc'])
  })
})

describe('signals to the server while processes are stopped', () => {
  const states: Record<string, (server: Awaited<ReturnType<typeof startThree>>) => Promise<unknown>> = {
    'one process': async ({ pids }) => signal(pids().slice(0, 1), 'SIGSTOP'),
    'all processes, with connections': async ({ pids, url }) => {
      signal(pids(), 'SIGSTOP')
      for (let each = 0; each < 5; each++) (await open(Number(new URL(url).port))).send(post('abc'))
    },
    'one process, and a change': async ({ pids, change, seen }) => {
      signal(pids().slice(0, 1), 'SIGSTOP')
      void change('upper').catch(() => undefined)
      await seen()
    },
    'all processes, and a restart': async ({ pids, kill, seen }) => {
      signal(pids(), 'SIGSTOP')
      kill('SIGUSR2')
      await seen()
    },
    'a process, and the others are killed': async ({ pids, lines }) => {
      signal(pids().slice(0, 1), 'SIGSTOP')
      signal(pids().slice(1), 'SIGKILL')
      await until(() => lines('a serving process was lost').length === 2)
    },
  }

  for (const [state, make] of Object.entries(states)) {
    test(`${state}: SIGTERM ends all with 0`, async () => {
      const server = await startThree()
      await make(server)
      const all = server.pids()
      server.kill('SIGTERM')
      expect(await server.ended).toMatchObject({ code: 0, signal: null })
      await until(() => areGone(all))
    })

    test(`${state}: a second SIGINT ends all with 1`, async () => {
      const server = await startThree('--grace-ms', '60000')
      await make(server)
      const all = server.pids()
      server.kill('SIGINT')
      await until(() => server.lines('closing').some((line) => line.process === undefined))
      server.kill('SIGINT')
      expect(await server.ended).toMatchObject({ code: 1, signal: null })
      await until(() => areGone(all))
    })
  }

  test('a start that is ended by a signal leaves none', async () => {
    const server = start([guest('echo'), '--port', '0', '--processes', '2'])
    const pids = () => childrenOf(server.child.pid ?? 0)
    await until(() => pids().length === 2)
    const all = pids()
    signal(all, 'SIGSTOP')
    await stopped(all)
    server.kill('SIGTERM')
    expect(await server.ended).toMatchObject({ signal: 'SIGTERM' })
    await until(() => areGone(all))
  })

  test('a SIGUSR2 during the start is a restart after it', async () => {
    const server = start([guest('echo'), '--port', '0', '--processes', '2'])
    await until(() => childrenOf(server.child.pid ?? 0).length === 2)
    server.kill('SIGUSR2')
    await server.listening()
    await until(() => linesOf(server, 'all serving processes were replaced').length === 1)
  })

  test('processes that are continued after their primary was killed end', async () => {
    const server = await startThree()
    const all = server.pids()
    signal(all, 'SIGSTOP')
    server.kill('SIGKILL')
    await once(server.child, 'exit')
    signal(all, 'SIGCONT')
    await until(() => areGone(all))
  })
})

test('a second signal ends processes whose guests run', async () => {
  const server = await startProcesses([guest('loop'), '--processes', '2', '--stall-ms', '0'])
  const all = server.pids()
  const client = await open(Number(new URL(server.url).port))
  client.send(post('x'))
  server.kill('SIGTERM')
  await until(() => server.lines('closing').some((line) => line.process === undefined))
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 1 })
  await until(() => areGone(all))
})

test('a SIGUSR2 during a rolling restart is followed by one more, with the newest options', async () => {
  const cwd = temporaryFolder()
  const write = (headersTimeoutMs: number) => {
    const options = { routes: [{ url: '/', plugin: guest('echo') }], headersTimeoutMs }
    writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify(options))
  }
  write(60_000)
  const server = await startProcesses(['--processes', '2'], {}, cwd)
  server.kill('SIGUSR2')
  await until(() => server.lines('a serving process was replaced').length === 1)
  write(100)
  for (let each = 0; each < 3; each++) server.kill('SIGUSR2')
  await until(() => server.lines('all serving processes were replaced').length === 2)
  const clients = await Promise.all([1, 2].map(() => open(Number(new URL(server.url).port))))
  for (const client of clients) client.send('POST / HTTP/1.1\r\n')
  for (const client of clients) expect(await client.answer()).toMatchObject({ status: 408 })
})

test('a process without a primary ends although its guest never returns and --stall-ms is 0', async () => {
  const flags = ['--processes', '2', '--stall-ms', '0', '--drain-ms', '0', '--grace-ms', '100']
  const server = await startProcesses([guest('loop'), ...flags])
  const all = server.pids()
  const before = all.map(cpuTicks)
  const clients = await Promise.all([1, 2].map(() => open(Number(new URL(server.url).port))))
  for (const client of clients) client.send(post('x'))
  await until(() => all.every((pid, index) => cpuTicks(pid) > (before[index] ?? 0) + 20))
  server.kill('SIGKILL')
  await server.ended
  await until(() => areGone(all)) // and reaped
  expect(server.stderr().match(/WASM_SERVE_PRIMARY_GONE/g)).toHaveLength(2)
})

/** The CPU time of a process, in hundredths of a second. */
function cpuTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}
