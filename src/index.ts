export {
  type CreateServerOptions,
  checkServerOptions,
  checkWasmServeOptions,
  type Problem,
  problemsOf,
  type RouteOptions,
  type ServerOptions,
  type WasmServeOptions,
} from './config/options.ts'
export type { Contract } from './contract/contract.ts'
export type { RequestEnvelope } from './contract/http.ts'
export { createServer } from './create-server.ts'
export { stuckThreads } from './engine/stuck-threads.ts'
export * from './errors.ts'
export { type LoadOptions, loadPlugin, type Plugin } from './plugin/plugin.ts'
export type { CallHooks, FailedCall, GuestCall, GuestResult } from './route/call-hooks.ts'
export type { ServedRoute } from './route/served-route.ts'
export type { Block } from './runtime/block-copy.ts'
export type { CallContext } from './runtime/call-context.ts'
export type { Caller } from './runtime/caller.ts'
export type { HostFunction, HostFunctions } from './runtime/host-functions.ts'
export { wasmServe } from './wasm-serve.ts'
