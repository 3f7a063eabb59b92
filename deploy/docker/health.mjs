import { get } from 'node:http'

/* node health.mjs: exits with 0 if the listener for probes says that the server is healthy, else with 1. */

const address = process.env.WASM_SERVE_PROBES ?? ''
const [, host = '127.0.0.1', port] = /^(?:\[?(.+?)\]?:)?(\d+)$/.exec(address) ?? []
const name = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
const at = port === undefined ? { socketPath: address } : { host: name, port }
get({ ...at, path: '/healthz', timeout: 2_000 }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1))
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1))
