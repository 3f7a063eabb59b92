import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { findHostFunction, type HostFunctions } from '../host-functions.ts'
import type { StreamProblem, StreamReply } from './operations.ts'

/** The namespace of the functions for streams. */
export const STREAMS = 'wasm-serve:http'

/** Return values of failed functions of {@link STREAMS}; see `docs/guide/streams.md`. Failures that the store has too have its codes. */
export const STREAM_CODES = {
  gone: -1n,
  order: -2n,
  forbidden: -3n,
  invalid: -4n,
  'too-large': -5n,
  full: -6n,
  unavailable: -7n,
  failed: -8n,
} as const satisfies Record<StreamProblem, bigint>

/** Whether it is a function of streams. */
export function isStreamFunction(namespace: string, name: string): boolean {
  return namespace === STREAMS && (EXCHANGE_FUNCTIONS.has(name) || REQUEST_FUNCTIONS.has(name))
}

const EXCHANGE_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['request_read', 'response_start', 'response_write', 'response_flush', 'response_trailers'],
  ...['sse', 'wait', 'client_gone'],
  ...['ws_receive', 'ws_kind', 'ws_send', 'ws_close'],
])

const REQUEST_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['http_open', 'http_write', 'http_response', 'http_read', 'http_close'],
])

/** Whether a plug-in takes the messages of a WebSocket itself: a call of it serves a connection. */
export function takesMessages(plugin: Pick<Plugin, 'imports' | 'linked'>): boolean {
  return hostImports(plugin).some(({ module, name }) => module === STREAMS && name === 'ws_receive')
}

/** The functions of streams that a plug-in imports, except those that the user's host functions override. */
export function streamImports(
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users: HostFunctions = {},
): readonly string[] {
  return hostImports(plugin)
    .filter(({ module, name }) => isStreamFunction(module, name) && !findHostFunction(users, module, name))
    .map(({ name }) => name)
}

/** Whether guests with these imports read bodies and write answers piece by piece. */
export function importsExchange(imports: readonly string[]): boolean {
  return imports.some((name) => EXCHANGE_FUNCTIONS.has(name))
}

/** Whether guests with these imports stream requests to other servers. */
export function importsRequests(imports: readonly string[]): boolean {
  return imports.some((name) => REQUEST_FUNCTIONS.has(name))
}

/** @returns 0, or the code of the problem. */
export function codeOf(reply: StreamReply<undefined>): bigint {
  return 'problem' in reply ? STREAM_CODES[reply.problem] : 0n
}
