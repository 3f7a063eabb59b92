import { readFileSync } from 'node:fs'
import { get } from 'node:http'

/*
 * node health.mjs [FILE]: exits with 0 if the server says that it is healthy, else with 1. It asks the listener for probes, or that
 * for operators if there is none, wherever the command line of process 1 (FILE, for tests) or the environment puts it: flags win.
 * Without both listeners nothing can be asked: the container is healthy as long as its process runs.
 */

const [, , file = '/proc/1/cmdline'] = process.argv
const words = readFileSync(file, 'utf8').split('\0')

/** The address of a listener; empty: there is none. The last flag wins, as for the server. */
function addressOf(name) {
  const at = words.findLastIndex((word) => word === `--${name}` || word.startsWith(`--${name}=`))
  const flag = words[at]?.includes('=') ? words[at].slice(`--${name}=`.length) : words[at + 1]
  return (at === -1 ? process.env[`WASM_SERVE_${name.toUpperCase()}`] : flag) ?? ''
}

const address = addressOf('probes') || addressOf('admin')
if (address === '') process.exit(0)
const [, host = '127.0.0.1', port] = /^(?:\[?(.+?)\]?:)?(\d+)$/.exec(address) ?? []
const name = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
const at = port === undefined ? { socketPath: address } : { host: name, port }
get({ ...at, path: '/healthz', timeout: 2_000 }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1))
  .on('timeout', () => process.exit(1))
  .on('error', () => process.exit(1))
