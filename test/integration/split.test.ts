import Fastify from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { CallHooks, ServedRoute } from '../../src/options/served-route.ts'
import type { Plugin } from '../../src/plugin/plugin.ts'
import { guest, guestBytes } from '../support/guest.ts'

// Modules of its own: whether calls are batched depends on the turns before.
vi.resetModules()
const { addRoutes } = await import('../../src/route/add-routes.ts')
const { checkWasmServeOptions } = await import('../../src/options/options.ts')
const { loadPlugin } = await import('../../src/plugin/plugin.ts')

/** A version of a guest that needs threads: its manifest has a deadline, and it cannot be interrupted. */
async function withDeadline(name: string): Promise<Plugin> {
  const wasm = [{ data: Buffer.from(guestBytes(name)).toString('base64') }]
  return loadPlugin({ wasm, timeout_ms: 1_000 }, { interrupts: 'off' })
}

/** One route whose calls are split between two versions. */
async function serveSplit(live: Plugin, next: Plugin, percent: number, hooks: CallHooks = {}) {
  const app = Fastify()
  onTestFinished(() => app.close())
  const served: ServedRoute[] = []
  app.addHook('onRoute', ({ config }) => {
    if (config?.wasmServe) served.push(config.wasmServe)
  })
  const { routes, ...options } = checkWasmServeOptions({ stallMs: 0, routes: [{ plugin: live }], ...hooks })
  const inOrder: string[] = []
  app.register(async (scope) => {
    scope.addHook('preHandler', (_request, _reply, done) => {
      queueMicrotask(() => inOrder.push('end of the handler'))
      done()
    })
    await addRoutes(scope, {
      ...options,
      routes: routes.map((route) => ({ ...route, next: { plugin: next, percent } })),
    })
  })
  await app.ready()
  const ask = async () => (await app.inject({ method: 'POST', url: '/', payload: 'abc' })).body
  const askNothing = async () => (await app.inject({ method: 'POST', url: '/' })).statusCode
  return { ask, askNothing, route: served[0], inOrder }
}

test('a split between the event loop and threads is shown as both, and each version runs as it needs', async () => {
  const inline = await loadPlugin(guest('echo'))
  const threads = await withDeadline('upper')
  const { ask, route } = await serveSplit(inline, threads, 40)
  expect(route).toMatchObject({ engine: 'inline', workers: 0, split: { engine: 'workers', workers: 1 } })
  const answers = await Promise.all(Array.from({ length: 100 }, ask))
  expect(answers.filter((answer) => answer === 'ABC')).toHaveLength(40)
  expect(answers.filter((answer) => answer === 'abc')).toHaveLength(60)
  expect(route?.split?.counts).toMatchObject([
    { calls: 60, failures: 0 },
    { calls: 40, failures: 0 },
  ])
})

test.each([
  true,
  false,
])('calls of threads begin at once, others at the end of their turn; live is inline: %s', async (isInline) => {
  const versions = [await loadPlugin(guest('echo')), await withDeadline('upper')] as const
  const [live, next] = isInline ? versions : ([versions[1], versions[0]] as const)
  const served: Awaited<ReturnType<typeof serveSplit>> = await serveSplit(live, next, 50, {
    onCall: () => void served.inOrder.push('call'),
  })
  for (let i = 0; i < 2; i++) expect(await served.askNothing()).toBe(200)
  const [inline, threads] = [
    ['end of the handler', 'call'],
    ['call', 'end of the handler'],
  ]
  expect(served.inOrder).toEqual([isInline ? inline : threads, isInline ? threads : inline].flat())
})
