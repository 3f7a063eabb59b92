import { expect, test } from 'vitest'
import { type ServiceCall, type ServiceLink, serviceUse } from '../../../src/guest/services/service.ts'
import { connectServices, needsOfKernel } from '../../../src/guest/services/services.ts'
import { openVars, type SharedVars } from '../../../src/guest/vars.ts'
import { linkedPlugin } from '../../support/linked.ts'
import { openServicesOf, SERVICE_OPTIONS, serviceResources } from '../../support/services.ts'

const GUEST = `(module
  (import "wasm-serve:kv" "get" (func (param i64) (result i64)))
  (import "extism:host/user" "kv_read" (func (param i64) (result i64)))
  (import "extism:host/user" "mine" (func))
  (import "wasm-serve:http" "request_read" (func (param i64) (result i64)))
  (func (export "run")))`

const key = Uint8Array.of(97)
const call: ServiceCall = { caller: undefined, hasDeadline: true, signal: new AbortController().signal }
const ask = (service: string, operation: string, ...args: unknown[]) => ({ service, operation, args })

test('a route has the services that its options offer and its guests import', async () => {
  const plugin = await linkedPlugin(GUEST)
  expect((await openServicesOf(plugin)).names).toEqual(['stream', 'kv'])
  expect((await openServicesOf(plugin, { vars: 'shared' })).names).toEqual(['stream', 'vars', 'kv'])
  const asking = await linkedPlugin(GUEST.replace('"mine" (func)', '"list_roots" (func (result i64))'))
  expect((await openServicesOf(asking)).names).toEqual(['stream', 'kv', 'agent'])
  expect((await openServicesOf(asking, { contract: 'simplism' })).names).toEqual(['stream', 'kv'])
  const none = { kv: { access: 'none', namespace: 'a' } } as const
  expect((await openServicesOf(plugin, none)).names).toEqual(['stream'])
  expect((await openServicesOf(await linkedPlugin('(module)'))).names).toEqual([])
})

test('a guest that imports any function of streams cannot run in the SDK of Extism', async () => {
  const needs = async (text: string) => needsOfKernel(serviceUse(SERVICE_OPTIONS, await linkedPlugin(text)))
  expect(await needs(GUEST)).toEqual(['streams'])
  expect(await needs('(module)')).toEqual([])
})

test('a service runs only its own operations, with arguments of their kinds', async () => {
  const services = await openServicesOf(await linkedPlugin(GUEST))
  expect(services.run(ask('kv', 'set', key, key, 0), call)).toEqual({ answer: undefined })
  expect(services.run(ask('kv', 'get', key), call)).toEqual({ answer: key })
  const refused = [
    ask('kv', 'toString'),
    ask('kv', 'send', 'name', 'text'),
    ask('kv', 'get', 'a'),
    ask('kv', 'get'),
    ask('kv', 'get', key, key),
    ask('vars', 'get', 'a'),
    ask('constructor', 'get', key),
  ]
  for (const request of refused) expect(services.run(request, call)).toBeUndefined()
})

test('only functions that are imported are added, and those of the user take precedence', async () => {
  const plugin = await linkedPlugin(GUEST)
  const users = { 'extism:host/user': { mine: () => undefined, kv_read: () => 1n } }
  const link: ServiceLink = { ask: () => ({ answer: undefined }) }
  const { settings, calls } = connectServices(['kv', 'stream'], plugin, users, link)
  expect(settings.functions).toEqual({
    'extism:host/user': users['extism:host/user'],
    'wasm-serve:kv': { get: expect.any(Function) },
    'wasm-serve:http': { request_read: expect.any(Function) },
  })
  expect(calls).toHaveLength(1)
  expect(connectServices([], plugin, users, link)).toEqual({ settings: { functions: users }, calls: [] })
})

test('guests in threads send requests that the service accepts', async () => {
  const plugin = await linkedPlugin(GUEST)
  const asked: unknown[] = []
  const link: ServiceLink = {
    ask(service, operation, args) {
      asked.push([service.name, operation, service.accepts(operation, args)])
      return undefined
    },
  }
  const { settings } = connectServices(['vars'], plugin, undefined, link)
  settings.vars?.set('name', key)
  settings.vars?.get('name')
  settings.vars?.delete('name')
  expect(asked).toEqual(['set', 'get', 'delete'].map((operation) => ['vars', operation, true]))
})

test('what a guest stores in its trial is in no store', async () => {
  const resources = serviceResources()
  const services = await openServicesOf(await linkedPlugin(GUEST), { vars: 'shared' }, resources)
  const trial = await services.forTrial()
  expect(trial.names).toEqual(['stream', 'kv'])
  expect(trial.run(ask('kv', 'set', key, key, 0), call)).toEqual({ answer: undefined })
  expect(trial.run(ask('kv', 'get', key), call)).toEqual({ answer: key })
  expect(services.run(ask('kv', 'get', key), call)).toEqual({ answer: undefined })
})

test('if a service cannot be opened, those that were are closed', async () => {
  const resources = serviceResources()
  await resources.store.close()
  const events: string[] = []
  const vars: SharedVars = {
    open() {
      events.push('open')
      return { vars: openVars(1), close: () => void events.push('close') }
    },
  }
  const opening = openServicesOf(await linkedPlugin(GUEST), { vars: 'shared' }, { ...resources, vars })
  await expect(opening).rejects.toMatchObject({ code: 'WASM_SERVE_STORE_UNAVAILABLE' })
  expect(events).toEqual(['open', 'close'])
})
