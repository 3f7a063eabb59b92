import type { FastifyPluginAsync, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import { checkWasmServeOptions, type WasmServeOptions } from '../options/options.ts'
import { addRoutes } from './add-routes.ts'

// A file of its own: what it exports is public, and types of the routes' parts are not.

const plugin: FastifyPluginAsync<WasmServeOptions> = async (app, registration) => {
  const { prefix, logLevel, logSerializers, ...ours } = registration as WasmServeOptions & RegisterOptions
  await addRoutes(app, checkWasmServeOptions(ours))
}

/**
 * Serves Extism plug-ins as routes of this scope, below its prefix. A reload swaps what answers at a route; routes
 * cannot be added once the app listens, because Fastify cannot.
 */
export const wasmServe: FastifyPluginAsync<WasmServeOptions> = fp(plugin, {
  name: 'wasm-serve',
  fastify: '5.x',
  encapsulate: true,
})
