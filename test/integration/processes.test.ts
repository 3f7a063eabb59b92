import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { commandConfiguration } from '../../src/deploy/configuration.ts'
import type { DesiredState } from '../../src/deploy/desired-state.ts'
import { editPlugin, toVersion, withVersion } from '../../src/deploy/edits.ts'
import { openProcesses } from '../../src/deploy/processes/processes.ts'
import type { ServingSide } from '../../src/deploy/serving-side.ts'
import { openDeployments } from '../../src/deploy/start.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { readConfig } from '../../src/options/config.ts'
import { readSource } from '../../src/plugin/source/source.ts'
import { temporaryFolder } from '../support/admin-api.ts'
import { guest } from '../support/guest.ts'
import { startHere } from '../support/in-process.ts'

/** A server whose serving processes run in this one. */
async function serving(count: number) {
  const file = join(temporaryFolder(), 'wasm-serve.json')
  const server = { stallMs: 0, port: 0, drainMs: 0, graceMs: 100, processes: count, headersTimeoutMs: 5_000 }
  writeFileSync(file, JSON.stringify({ routes: [{ url: '/', plugin: guest('echo') }], ...server }))
  const log = openLog('silent')
  const here = startHere()
  const processes = openProcesses({ count, log, secrets: () => [], start: here.start })
  const around = { environment: {}, secrets: new Secrets(), commands: {} }
  const source = commandConfiguration(readConfig(['-c', file], {}), around)
  const deployments = await openDeployments(source, () => ({ log, opener: processes }))
  const running = await processes.serve(deployments)
  onTestFinished(() => running.drain())
  return {
    ...{ processes, deployments, ...here },
    /** What the process that serves under a number answers, without a socket. */
    async says(number: number) {
      const pid = processes.list[number - 1]?.pid ?? 0
      const { current } = (await here.started[pid - 1]?.deployments) ?? deployments
      return (await current.app.inject({ method: 'POST', url: '/', payload: 'abc' })).body
    },
  }
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
    return { ...now, edits: editPlugin(now.edits, own, plugin) }
  }
  return { make, modules }
}

test('a change is live in all processes', async () => {
  const { deployments, says } = await serving(2)
  const { make, modules } = await changeTo('upper')
  expect(await deployments.apply(make, 'test', { modules })).toMatchObject({ revision: 2 })
  expect([await says(1), await says(2)]).toEqual(['ABC', 'ABC'])
})

test('a change that one process cannot prepare is committed by none', async () => {
  const { deployments, started, says } = await serving(3)
  const second = started[1]
  Object.assign(second?.side ?? {}, { prepare: () => Promise.reject(new Error('no memory')) })
  const { make, modules } = await changeTo('upper')
  await expect(deployments.apply(make, 'test', { modules })).rejects.toThrow()
  expect([await says(1), await says(2), await says(3)]).toEqual(['abc', 'abc', 'abc'])
  for (const { side } of started)
    expect(await side.status()).toMatchObject({ revision: 1, prepared: undefined })
})

test('a process that ends while it prepares makes the change fail', async () => {
  const { deployments, started } = await serving(2)
  const { make, modules } = await changeTo('upper')
  const [first, second] = started
  const prepare = second?.side.prepare
  const ending = (...args: Parameters<ServingSide['prepare']>) => {
    const preparing = prepare?.(...args)
    second?.end({ signal: 'SIGKILL' })
    return preparing
  }
  Object.assign(second?.side ?? {}, { prepare: ending })
  await expect(deployments.apply(make, 'test', { modules })).rejects.toMatchObject({
    code: 'WASM_SERVE_PROCESS_ENDED',
  })
  expect(await first?.side.status()).toMatchObject({ revision: 1, prepared: undefined })
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

test('a process that does not commit is replaced, and starts with the new state', async () => {
  const { processes, deployments, started, says } = await serving(2)
  const side = started[0]?.side
  if (side) Object.assign(side, { commit: () => Promise.reject(new Error('it is stuck')) })
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

test('only one restart runs at a time', async () => {
  const { processes } = await serving(1)
  const first = processes.restart('first')
  await expect(processes.restart('second')).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  await first
})
