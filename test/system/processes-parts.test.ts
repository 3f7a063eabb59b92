import { EventEmitter, once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { commandConfiguration } from '../../src/deploy/configuration.ts'
import { reload } from '../../src/deploy/deployments.ts'
import { type DesiredState, desiredState } from '../../src/deploy/desired-state.ts'
import { NO_EDITS, toVersion, withPlugins, withVersion } from '../../src/deploy/edits.ts'
import type { Clock } from '../../src/deploy/processes/clock.ts'
import { openProcesses } from '../../src/deploy/processes/processes.ts'
import type { Replica } from '../../src/deploy/replica.ts'
import { openDeployments } from '../../src/deploy/start.ts'
import { InstanceStartError } from '../../src/errors/errors.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { readConfig } from '../../src/options/config.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import { temporaryFolder } from '../support/admin-api.ts'
import { guest } from '../support/guest.ts'
import { startHere } from '../support/in-process.ts'

/** A server whose serving processes run in this one. Its time passes when the test says so. */
async function serving(count: number, options: { readonly silentMs?: number } = {}) {
  const file = join(temporaryFolder(), 'wasm-serve.json')
  const server = { stallMs: 0, port: 0, drainMs: 0, graceMs: 100, processes: count, headersTimeoutMs: 5_000 }
  const configure = (...routes: object[]) => writeFileSync(file, JSON.stringify({ routes, ...server }))
  configure({ url: '/', plugin: guest('echo') })
  const log = openLog('silent')
  const here = startHere()
  let now = 0
  let pass: (ms: number) => void = () => undefined
  const clock: Clock = {
    every(_ms, given) {
      pass = given
      return () => undefined
    },
    // Pauses between starts are short; limits last as long as the test says.
    async sleep(ms, signal) {
      const end = now + ms
      do await new Promise(setImmediate)
      while (ms > 1_000 && now < end && !signal.aborted)
    },
  }
  const processes = openProcesses({ count, log, secrets: () => [], start: here.start, clock, ...options })
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  const source = commandConfiguration(readConfig(['-c', file], {}), context)
  const deployments = await openDeployments(source, () => ({ log, open: (first) => processes.open(first) }))
  const running = await processes.serve(deployments)
  onTestFinished(() => running.drain())
  return {
    ...{ processes, deployments, configure, ...here },
    /** Seconds pass, in which all processes that are not frozen give signs of life. */
    async seconds(count: number) {
      for (let second = 0; second < count; second++) {
        for (const process of here.started) process.giveSign()
        now += 1_000
        pass(1_000)
        await turns()
      }
    },
    pass: (ms: number) => pass(ms),
    states: () => processes.list.map(({ state }) => state),
    /** What the process that serves under a number answers, without a socket. */
    async says(number: number) {
      const pid = processes.list[number - 1]?.pid ?? 0
      const { app } = (await here.started[pid - 1]?.local) ?? deployments.current
      return (await app.inject({ method: 'POST', url: '/', payload: 'abc' })).body
    },
  }
}

/** Lets messages arrive, and what waits for them. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
}

/** Waits until something holds, while seconds do not pass. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** A change of the only plug-in. */
async function changeTo(name: string) {
  const source = await readSource(guest(name))
  const modules = new Map(source.modules.map(({ digest, bytes }) => [digest, bytes]))
  const make = (now: DesiredState): DesiredState => {
    const [[own = '', before] = []] = now.edits.plugins
    const version = toVersion(source, 'upload')
    const known = before ?? { added: false, versions: [], traffic: [] }
    const plugin = { ...withVersion(known, version), traffic: [{ digest: version.digest, percent: 100 }] }
    return { ...now, edits: withPlugins(now.edits, [[own, plugin]]) }
  }
  return { make, modules }
}

test('a change is live in all processes', async () => {
  const { deployments, says } = await serving(2)
  const { make, modules } = await changeTo('upper')
  expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
  expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
})

test('the primary compiles no plug-in, and one that V8 refuses is refused with its line', async () => {
  const { deployments, configure, says } = await serving(2)
  const modules = () => deployments.current.routes.map(({ plugin }) => plugin.module)
  expect(modules()).toEqual([undefined])
  const broken = join(temporaryFolder(), 'broken.wasm')
  writeFileSync(broken, WITHOUT_RESULT)
  configure({ url: '/', plugin: guest('upper') }, { url: '/broken', plugin: broken })
  await expect(deployments.apply(reload, 'test')).rejects.toMatchObject({
    code: 'WASM_SERVE_PLUGIN_INVALID',
    message: expect.stringMatching(/wasm-serve\.json:1.*broken/),
  })
  expect(await says(1)).toBe('abc')
  configure({ url: '/', plugin: guest('upper') })
  await deployments.apply(reload, 'test')
  expect([modules(), await says(1), await says(2)]).toEqual([[undefined], 'ABC', 'ABC'])
})

/** A module whose function has no result, although its type has one. */
const WITHOUT_RESULT = Buffer.from(
  '0061736d010000000105016000017f03020100070a010668616e646c6500000a040102000b',
  'hex',
)

test('a change that one process cannot prepare is committed by none', async () => {
  const { deployments, started, says } = await serving(3)
  const second = started[1]
  Object.assign(second?.replica ?? {}, { prepare: () => Promise.reject(new Error('no memory')) })
  const { make, modules } = await changeTo('upper')
  await expect(deployments.apply(make, 'test', { modules })).rejects.toThrow()
  expect([await says(1), await says(2), await says(3)]).toEqual(['abc', 'abc', 'abc'])
  for (const { replica } of started)
    expect(await replica.status()).toMatchObject({ revision: 1, prepared: undefined })
})

test('a process that ends while it prepares makes the change fail', async () => {
  const { deployments, started } = await serving(2)
  const { make, modules } = await changeTo('upper')
  const [first, second] = started
  const prepare = second?.replica.prepare
  const ending = (...args: Parameters<Replica['prepare']>) => {
    const preparing = prepare?.(...args)
    second?.end({ signal: 'SIGKILL' })
    return preparing
  }
  Object.assign(second?.replica ?? {}, { prepare: ending })
  await expect(deployments.apply(make, 'test', { modules })).rejects.toMatchObject({
    code: 'WASM_SERVE_PROCESS_ENDED',
  })
  expect(await first?.replica.status()).toMatchObject({ revision: 1, prepared: undefined })
})

test('a process that starts during a change joins after it, with its result', async () => {
  const { processes, deployments, started, behavior, says } = await serving(2)
  let started2: () => void = () => undefined
  const replacing = new Promise<void>((resolve) => {
    started2 = resolve
  })
  let go: () => void = () => undefined
  behavior.start = () => {
    started2()
    return new Promise((resolve) => {
      go = resolve
    })
  }
  started[1]?.end({ code: 1 })
  await replacing
  const { make, modules } = await changeTo('upper')
  const prepared = await deployments.prepare(make, 'test', { modules })
  go()
  await started[2]?.ready
  expect(processes.list[1]).toMatchObject({ state: 'starting', lost: 1, lastEnd: 'exit code 1' })
  await prepared.commit()
  while (processes.list[1]?.state !== 'serving') await new Promise(setImmediate)
  expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
})

test('a process that starts while a change removes a module of its state is started again, and this is no failure', async () => {
  const { processes, deployments, started, behavior, says } = await serving(2)
  const { make, modules } = await changeTo('upper')
  await deployments.apply(make, 'test', { modules })
  const starts = new EventEmitter<{ begun: [] }>()
  const changed = new AbortController()
  behavior.start = async () => {
    starts.emit('begun')
    if (!changed.signal.aborted) await once(changed.signal, 'abort')
  }
  const begun = once(starts, 'begun')
  started[1]?.end({ code: 1 })
  await begun
  await deployments.apply(
    ({ configuration, revision }) => desiredState(configuration, NO_EDITS, revision),
    'forget',
  )
  changed.abort()
  await expect(started[2]?.ready).rejects.toMatchObject({ code: 'WASM_SERVE_STATE_INVALID' })
  while (processes.list[1]?.state !== 'serving') {
    expect(processes.list[1]).toMatchObject({ state: 'starting', problem: undefined })
    await new Promise(setImmediate)
  }
  expect([await says(1), await says(2), started.length]).toEqual(['abc', 'abc', 4])
})

test('a process that does not commit is replaced, and starts with the new state', async () => {
  const { processes, deployments, started, says } = await serving(2)
  const replica = started[0]?.replica
  if (replica) Object.assign(replica, { commit: () => Promise.reject(new Error('it is stuck')) })
  const { make, modules } = await changeTo('upper')
  expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
  while (processes.list[0]?.state !== 'serving') await new Promise((resolve) => setTimeout(resolve, 5))
  expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
  expect(processes.list.map(({ lost }) => lost)).toEqual([1, 0])
})

test('a restart in which a new process cannot start leaves the others as they are', async () => {
  const { processes, behavior, says } = await serving(2)
  behavior.start = () => Promise.reject(new Error('it cannot'))
  const before = processes.list.map(({ pid }) => pid)
  await expect(processes.restart('test')).rejects.toThrow('it cannot')
  expect(processes.list.map(({ pid }) => pid)).toEqual(before)
  behavior.start = () => undefined
  await processes.restart('test')
  expect(processes.list.some(({ pid }) => before.includes(pid))).toBe(false)
  expect([await says(1), await says(2)]).toEqual(['abc', 'abc'])
})

test('a lost process that cannot be replaced is shown with the reason until it is', async () => {
  const { processes, started, behavior } = await serving(2)
  const goes = new AbortController()
  behavior.start = () => {
    behavior.start = async () => void (goes.signal.aborted || (await once(goes.signal, 'abort')))
    throw new InstanceStartError('echo', 'no')
  }
  started[1]?.end({ code: 1 })
  const problem = 'WASM_SERVE_INSTANCE_START_FAILED'
  await until(() => processes.list[1]?.problem === problem)
  expect(processes.list).toMatchObject([
    { state: 'serving', problem: undefined },
    { lost: 1, problem },
  ])
  goes.abort()
  await until(() => processes.list[1]?.state === 'serving')
  expect(processes.list[1]?.problem).toBeUndefined()
})

test('only one restart runs at a time', async () => {
  const { processes } = await serving(1)
  const first = processes.restart('first')
  await expect(processes.restart('second')).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  await first
})

describe('a process that is silent', () => {
  test('before a change is killed, and the change is made without it', async () => {
    const { processes, deployments, started, seconds, states, says } = await serving(3)
    const { make, modules } = await changeTo('upper')
    started[0]?.freeze()
    let isMade = false
    const changing = deployments.apply(make, 'test', { modules }).finally(() => {
      isMade = true
    })
    await seconds(9)
    expect([isMade, states()]).toEqual([false, ['silent', 'serving', 'serving']])
    await seconds(1)
    expect(await changing).toMatchObject({ revision: 2 })
    started[0]?.thaw()
    await until(() => states()[0] === 'serving')
    expect([await says(1), await says(2), await says(3)]).toEqual(['ABC', 'ABC', 'ABC'])
    expect(processes.list.map(({ lost }) => lost)).toEqual([1, 0, 0])
  })

  test('for long is killed at once when a change needs it', async () => {
    const { deployments, started, seconds } = await serving(2)
    const { make, modules } = await changeTo('upper')
    started[1]?.freeze()
    await seconds(60)
    expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
  })

  test('while it prepares a change is killed, and none commits it', async () => {
    const { deployments, started, seconds, states, says } = await serving(2)
    const [first, second] = started
    const { make, modules } = await changeTo('upper')
    const prepare = second?.replica.prepare
    const freezing = (...args: Parameters<Replica['prepare']>) => {
      second?.freeze()
      return prepare?.(...args)
    }
    Object.assign(second?.replica ?? {}, { prepare: freezing })
    const changing = deployments.apply(make, 'test', { modules }).catch((error) => error)
    await until(() => second?.replica !== undefined)
    await seconds(12)
    expect(await changing).toMatchObject({ code: 'WASM_SERVE_PROCESS_ENDED' })
    expect(await first?.replica.status()).toMatchObject({ revision: 1, prepared: undefined })
    expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
    await until(() => states()[1] === 'serving')
    expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
  })

  test('while it commits a change is killed, and its replacement has the new state', async () => {
    const { deployments, started, seconds, states, says } = await serving(2)
    const { make, modules } = await changeTo('upper')
    const prepared = await deployments.prepare(make, 'test', { modules })
    started[0]?.freeze()
    const committing = prepared.commit()
    await seconds(12)
    expect(await committing).toMatchObject({ revision: 2 })
    started[0]?.thaw()
    await until(() => states()[0] === 'serving')
    expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
  })

  test('holds up no replacement of the others, before a change, while it prepares and while it commits', async () => {
    const { deployments, started, states } = await serving(2)
    const { make, modules } = await changeTo('upper')
    const [silent] = started
    silent?.freeze()
    const changing = deployments.apply(make, 'test', { modules }).catch((error) => error)
    started.at(-1)?.end({ signal: 'SIGKILL' })
    await until(() => started.length === 3 && states()[1] === 'serving')

    silent?.end({ signal: 'SIGKILL' })
    await until(() => started.length === 4 && states()[0] === 'serving')
    await changing
    const prepared = await deployments.prepare((await changeTo('echo')).make, 'test')
    started[3]?.freeze()
    const committing = prepared.commit()
    started[2]?.end({ signal: 'SIGKILL' })
    await until(() => started.length === 5 && states()[1] === 'serving')
    started[3]?.end({ signal: 'SIGKILL' })
    await committing
  })

  test('gives up a call of the admin API, and the next one goes to another process', async () => {
    const { deployments, started, seconds } = await serving(2)
    for (const [index, process] of started.entries())
      process.call = () =>
        index === 0
          ? new Promise(() => undefined)
          : Promise.resolve({ status: 200, headers: {}, body: Buffer.from('abc') })
    started[0]?.freeze()
    const call = () => deployments.current.app.inject({ method: 'POST', url: '/', payload: 'abc' })
    const first = call()
    await turns()
    await seconds(6)
    const { statusCode, body } = await first
    expect([statusCode, body]).toEqual([503, expect.stringContaining('WASM_SERVE_PROCESS_SILENT')])
    expect((await call()).statusCode).toBe(200)
  })

  test('since its start is killed after 30 seconds, and another one is started', async () => {
    const { processes, started, behavior, seconds, states } = await serving(1)
    behavior.start = () => new Promise(() => undefined)
    started[0]?.end({ signal: 'SIGKILL' })
    await until(() => started.length === 2)
    started[1]?.freeze()
    await seconds(29)
    expect(states()).toEqual(['silent'])
    behavior.start = () => undefined
    await seconds(1)
    await until(() => states()[0] === 'serving')
    expect(processes.list).toMatchObject([{ pid: 3 }])
  })

  test('while it drains is killed, and a restart goes on', async () => {
    const { processes, started, seconds, states } = await serving(2)
    const [first] = started
    Object.assign(first ?? {}, { drain: () => first?.freeze() })
    const restarting = processes.restart('test')
    await until(() => processes.list[0]?.pid === 3)
    await seconds(12)
    await restarting
    expect(processes.list.map(({ pid }) => pid)).toEqual([3, 4])
    expect(states()).toEqual(['serving', 'serving'])
  })

  test('is shown, and stays without a change, until it is heard again', async () => {
    const { processes, started, seconds, states, says } = await serving(2)
    started[0]?.freeze()
    await seconds(4)
    expect(states()).toEqual(['serving', 'serving'])
    await seconds(96)
    expect(processes.list).toMatchObject([
      { state: 'silent', silentMs: 100_000, lost: 0 },
      { state: 'serving', silentMs: 1_000, lost: 0 },
    ])
    started[0]?.thaw()
    expect(states()).toEqual(['serving', 'serving'])
    expect(await says(1)).toBe('abc')
  })

  test('is replaced without a change, by option', async () => {
    const { started, seconds, states } = await serving(2, { silentMs: 20_000 })
    Object.assign(started[0] ?? {}, { beat: {} })
    started[0]?.freeze()
    await seconds(19)
    expect([started.length, states()[0]]).toEqual([2, 'silent'])
    await seconds(1)
    await until(() => started.length === 3 && states()[0] === 'serving')
  })
})

test('a change waits for the replacements of processes that were all silent', async () => {
  const { deployments, started, seconds, states, says } = await serving(2)
  const { make, modules } = await changeTo('upper')
  for (const process of started) process.freeze()
  await seconds(60)
  expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
  await until(() => states().every((state) => state === 'serving'))
  expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
})

test('a change is refused if no process comes in 10 seconds', async () => {
  const { deployments, started, behavior, seconds } = await serving(1)
  behavior.start = () => new Promise(() => undefined)
  started[0]?.end({ signal: 'SIGKILL' })
  const { make, modules } = await changeTo('upper')
  let error: unknown
  deployments.apply(make, 'test', { modules }).catch((thrown) => {
    error = thrown
  })
  while (!error) await seconds(1)
  expect(error).toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
})

test('a restart that was requested by a signal is made again if a process ends meanwhile', async () => {
  const { processes, started } = await serving(1)
  const [first] = started
  const prepare = first?.replica.prepare
  const ending = (...args: Parameters<Replica['prepare']>) => {
    const preparing = prepare?.(...args)
    first?.end({ signal: 'SIGKILL' })
    return preparing
  }
  Object.assign(first?.replica ?? {}, { prepare: ending })
  processes.requestRestart('test')
  await until(() => processes.list[0]?.pid === 3)
})

test('time in which the primary was stopped is no silence of its processes', async () => {
  const { pass, processes } = await serving(1)
  pass(3_600_000)
  expect(processes.list).toMatchObject([{ state: 'serving', silentMs: 2_000 }])
})

test('restarts that are requested during a restart are one more restart', async () => {
  const { processes, started } = await serving(1)
  const first = processes.restart('first')
  for (const reason of ['second', 'third']) processes.requestRestart(reason)
  await first
  await until(() => processes.list[0]?.pid === 3)
  await started[1]?.ended
  await turns()
  expect([started.length, processes.list[0]?.state]).toEqual([3, 'serving'])
})
