// What a user may write, and what the types have to refuse: compiled against the package as it is published.

import Fastify from 'fastify'
import {
  type CallContext,
  type CallHooks,
  type Contract,
  createServer,
  type HostFunction,
  type HostFunctions,
  loadPlugin,
  OptionsError,
  problemsOf,
  type RouteOptions,
  type ServedRoute,
  wasmServe,
} from 'wasm-serve'
import { type TestAnswer, testPlugin } from 'wasm-serve/testing'

const add: HostFunction = (_context, a: number, b: number) => a + b
const shout = (context: CallContext, at: bigint): bigint =>
  context.store(context.read(at)?.text().toUpperCase() ?? '')

export const functions: HostFunctions = {
  'extism:host/user': {
    add,
    shout,
    async later(context) {
      const id: unknown = context.hostContext<{ id: string }>()?.id
      context.setVariable('id', String(id))
      // @ts-expect-error: text or bytes, no number
      context.store(1)
      // @ts-expect-error: nothing may be there
      context.getVariable('id').text()
    },
  },
}

// @ts-expect-error: a namespace holds functions
export const noFunctions: HostFunctions = { 'extism:host/user': { add: 1 } }

const hooks: CallHooks = {
  async onCall({ route, request, input }) {
    const url: string = route.url
    return request.headers.host === url ? Buffer.concat([input]) : undefined
  },
  onResult: ({ output, ms }) => output.length / ms,
  onError: ({ error }) => error.message,
}

// @ts-expect-error: a guest gets bytes
export const textHook: CallHooks = { onCall: () => 'text' }

const contract: Contract = {
  name: 'mine',
  input: ({ body }) => body as Uint8Array,
  answer: (output, reply) => void reply.send(output),
}

const route: RouteOptions = { plugin: 'hello.wasm', contract, functions, ...hooks, timeoutMs: 100 }
// @ts-expect-error: a misspelled option
export const misspelled: RouteOptions = { plugin: 'hello.wasm', timeout: 100 }

const app = Fastify()
await app.register(wasmServe, { prefix: '/plugins', ...hooks, routes: [route] })
app.addHook('onRoute', ({ config }) => {
  const served: ServedRoute | undefined = config?.wasmServe
  console.log(served?.plugin)
})

try {
  const plugin = await loadPlugin('hello.wasm', { isolation: 'fresh' })
  const server = await createServer({ ...hooks, routes: [{ plugin, isolation: 'fresh' }] })
  await server.close()
  const admin = { admin: '127.0.0.1:0', adminToken: 'a-token-of-32-characters-or-so-12' }
  const changing = await createServer({ ...admin, port: 0, watch: true, routes: [{ plugin: 'hello.wasm' }] })
  const urls: (string | undefined)[] = [await changing.listen(), changing.adminUrl]
  await changing.close()
  // @ts-expect-error: a port is a number
  await createServer({ port: `${urls.length}`, routes: [{ plugin }] })
} catch (error) {
  if (error instanceof OptionsError) console.log(problemsOf(error).map(({ option }) => option))
}

await using guest = await testPlugin('hello.wasm', { config: { a: 'b' }, logLevel: 'silent' })
const answer: TestAnswer = await guest.call('hello', { json: true }, { method: 'PUT', headers: { a: 'b' } })
export const greeting: string = answer.json<{ message: string }>().message
