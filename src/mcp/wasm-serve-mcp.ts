import type { FastifyPluginAsync, RegisterOptions } from 'fastify'
import fp from 'fastify-plugin'
import { checkWasmServeOptions, type WasmServeOptions } from '../options/options.ts'
import { addRoutes } from '../route/add-routes.ts'
import { addMcp } from './mcp.ts'

const plugin: FastifyPluginAsync<WasmServeOptions> = async (app, registration) => {
  const { prefix, logLevel, logSerializers, mcp, ...ours } = registration as WasmServeOptions &
    RegisterOptions
  const options = checkWasmServeOptions({ ...ours, mcp: mcp ?? {} })
  const { callables } = await addRoutes(app, { ...options, hidesTools: options.mcp?.toolsOnly === true })
  if (!options.mcp) return
  const { review } = await addMcp(app, options.mcp, callables, { isUnwatched: false })
  app.addHook('onListen', review)
}

/**
 * Serves Extism plug-ins as routes of this scope, like {@link wasmServe}, and as tools for agents: an MCP endpoint, at
 * `mcp.url` below its prefix. With `mcp.toolsOnly` the tools are not routes.
 */
export const wasmServeMcp: FastifyPluginAsync<WasmServeOptions> = fp(plugin, {
  name: 'wasm-serve-mcp',
  fastify: '5.x',
  encapsulate: true,
})
