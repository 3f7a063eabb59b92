import Fastify from 'fastify'
import {
  CallRefusedError,
  createServer,
  loadPlugin,
  type Plugin,
  type RouteOptions,
  type WasmServer,
  wasmServe,
} from 'wasm-serve'
import createPlugin, { CAPABILITIES, type Plugin as ExtismPlugin } from 'wasm-serve/extism'
import { type TestedPlugin, testPlugin } from 'wasm-serve/testing'

import extism = require('wasm-serve/extism')
import ours = require('wasm-serve')

const route: RouteOptions = { url: '/hello', plugin: 'hello.wasm' }
// @ts-expect-error: not a number
export const wrong: RouteOptions = { url: 1, plugin: 'a' }
async function main(): Promise<void> {
  const app = Fastify()
  await app.register(wasmServe, {
    routes: [route],
    onCall({ request }) {
      if (request.headers.refused) throw new CallRefusedError('refused')
    },
  })
  const answer = await app.inject({ method: 'POST', url: '/hello', payload: 'Bob' })
  console.log('mounted', answer.statusCode)
  await app.close()

  const server: WasmServer = await createServer({ routes: [route], logLevel: 'silent' })
  await server.close()

  const loaded: Plugin = await loadPlugin('hello.wasm')
  const tested: TestedPlugin = await testPlugin(loaded)
  console.log('tested', (await tested.call('hello', 'Bob')).status)
  await tested.close()

  const plugin: ExtismPlugin = await createPlugin('hello.wasm')
  console.log('extism', typeof (await plugin.call('hello', 'Bob'))?.text(), CAPABILITIES.supportsWasiPreview1)
  await plugin.close()
  const again: extism.Plugin = await extism('hello.wasm')
  await again.close()

  const imported = await import('wasm-serve')
  console.log('same', imported.createServer === ours.createServer)
}

void main()
