export type { Contract } from './contract/contract.ts'
export type { RequestEnvelope } from './contract/http.ts'
export { createServer, type WasmServer } from './create-server.ts'
export * from './errors/errors.ts'
export type { Block, CallContext } from './guest/call-context.ts'
export type { HostFunction, HostFunctions } from './guest/host-functions.ts'
export { wasmServeMcp } from './mcp/wasm-serve-mcp.ts'
export type { Caller } from './observe/observe.ts'
export {
  type CreateServerOptions,
  checkServerOptions,
  checkWasmServeOptions,
  problemsOf,
  type RouteOptions,
  type ServerOptions,
  type WasmServeOptions,
} from './options/options.ts'
export type { Problem } from './options/schema.ts'
export type { CallHooks, FailedCall, GuestCall, GuestResult, ServedRoute } from './options/served-route.ts'
export { stuckThreads } from './platform/stuck-threads.ts'
export { type LoadOptions, loadPlugin, type Plugin } from './plugin/plugin.ts'
export { wasmServe } from './route/wasm-serve.ts'
