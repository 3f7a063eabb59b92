import type { FastifyPluginAsync, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import { checkWasmServeOptions, optionsError, type WasmServeOptions } from '../options/options.ts'
import { problemAt } from '../options/schema.ts'
import { addRoutes } from './add-routes.ts'

// A separate file: its exports are public, and types of the routes' parts are not.

const plugin: FastifyPluginAsync<WasmServeOptions> = async (app, registration) => {
  const { prefix, logLevel, logSerializers, ...ours } = registration as WasmServeOptions & RegisterOptions
  const options = checkWasmServeOptions(ours)
  if (options.mcp) throw optionsError([problemAt(['mcp'], 'needs the Fastify plugin wasmServeMcp')])
  await addRoutes(app, options)
}

/**
 * Serves Extism plug-ins as routes of this scope, below its prefix. A reload replaces the handlers of routes. Routes
 * cannot be added once the app listens, because Fastify does not allow it.
 */
export const wasmServe: FastifyPluginAsync<WasmServeOptions> = fp(plugin, {
  name: 'wasm-serve',
  fastify: '5.x',
  encapsulate: true,
})
