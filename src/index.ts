export { createServer } from './app.ts'
export * from './errors.ts'
export {
  checkServerOptions,
  checkWasmServeOptions,
  type Problem,
  problemsOf,
  type RouteOptions,
  type ServerOptions,
  type WasmServeOptions,
} from './options.ts'
export { type ServedRoute, wasmServe } from './wasm-serve.ts'
