import { expect, onTestFinished, test, vi } from 'vitest'
import { openLink } from '../../src/deploy/processes/link.ts'
import { openProcesses } from '../../src/deploy/processes/processes.ts'
import { answersOf, type ReplicaRequests, remoteReplica } from '../../src/deploy/processes/remote-replica.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { file, guest, moduleNumber } from '../support/guest.ts'
import { openChannels, planReceived, startHere } from '../support/in-process.ts'
import { type OpenReplica, openControl, openLocal, testReplica } from '../support/replica-suite.ts'

const openLinked: OpenReplica = async (state, module) => {
  const { local } = await openLocal(state, module)
  const [near, far] = openChannels()
  openLink<Record<string, never>, ReplicaRequests>(far, answersOf(local, state.configuration))
  const link = openLink<ReplicaRequests, Record<string, never>>(near, {})
  return { local, replica: remoteReplica(link, state.configuration) }
}

const openSet: OpenReplica = async (state, module) => {
  const { start, started } = startHere()
  const set = openProcesses({ count: 2, log: openLog('silent'), secrets: () => [], start })
  const replica = await set.open(await planReceived(state, module))
  const local = await started[1]?.local
  if (!local) throw new Error('the second process was not started')
  return { local, replica, close: () => replica.close() }
}

testReplica('of this process', openLocal)
testReplica('at the other end of a link', openLinked)
testReplica('of several processes', openSet)

test('a replica whose server ends prepares nothing more, and serves what it has until then', async () => {
  const control = openControl()
  const routes = (name: string) => [{ url: '/', plugin: guest(name) }]
  const { local } = await openLocal(await control.state(3, routes('echo')), control.module)
  onTestFinished(async () => {
    await local.app.close()
    await local.close()
  })
  local.refuse()
  const late = local.prepare(await control.state(4, routes('upper')), 'test')
  await expect(late).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
  expect(await local.status()).toMatchObject({ revision: 3, prepared: undefined })
  expect((await local.app.inject({ method: 'POST', url: '/', payload: 'abc' })).body).toBe('abc')
})

test('a replica that compiles a plug-in of many modules warns of nothing', async () => {
  const control = openControl()
  const wasm = Array.from({ length: 13 }, (_, at) => ({
    name: at === 0 ? 'main' : `m${at}`,
    path: file(`${at}.wasm`, moduleNumber(at)),
  }))
  const plugin = file('many.json', JSON.stringify({ wasm }))
  const many = await control.state(4, [{ url: '/', plugin }])
  const first = await control.state(3, [{ url: '/', plugin: guest('echo') }])
  vi.resetModules() // it has compiled none of them
  const anew = await import('../support/replica-suite.ts')
  const { local } = await anew.openLocal(first, control.module)
  onTestFinished(async () => {
    await local.app.close()
    await local.close()
  })
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  await local.prepare(many, 'test')
  expect(warnings).toEqual([])
})
