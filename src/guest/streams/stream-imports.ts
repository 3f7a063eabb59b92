import { hostImports } from '../../plugin/host-imports.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import type { StreamProblem, StreamReply } from './stream-protocol.ts'

/** The namespace of the functions for streams. */
export const STREAMS = 'wasm-serve:http'

/** Return values of failed functions of {@link STREAMS}; see `docs/write/streams.md`. Failures that the store has too have its codes. */
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

/** The functions by which a guest reads its request and writes its answer. */
export const EXCHANGE_FUNCTIONS = [
  ...(['request_read', 'response_start', 'response_write', 'response_flush', 'response_trailers'] as const),
  ...(['sse', 'wait', 'client_gone'] as const),
  ...(['ws_receive', 'ws_kind', 'ws_send', 'ws_close'] as const),
] as const

export type ExchangeFunction = (typeof EXCHANGE_FUNCTIONS)[number]

/** The functions by which a guest streams requests to other servers. */
export const REQUEST_FUNCTIONS = [
  'http_open',
  'http_write',
  'http_response',
  'http_read',
  'http_close',
] as const

export type RequestFunction = (typeof REQUEST_FUNCTIONS)[number]

/** Whether a plug-in takes the messages of a WebSocket itself: a call of it serves a connection. */
export function takesMessages(plugin: Pick<Plugin, 'imports' | 'linked'>): boolean {
  return hostImports(plugin).some(({ module, name }) => module === STREAMS && name === 'ws_receive')
}

/** Whether guests with these imports read bodies and write answers piece by piece. */
export function importsExchange(imports: readonly string[]): boolean {
  return EXCHANGE_FUNCTIONS.some((name) => imports.includes(name))
}

/** Whether guests with these imports stream requests to other servers. */
export function importsRequests(imports: readonly string[]): boolean {
  return REQUEST_FUNCTIONS.some((name) => imports.includes(name))
}

/** @returns 0, or the code of the problem. */
export function codeOf(reply: StreamReply<undefined>): bigint {
  return 'problem' in reply ? STREAM_CODES[reply.problem] : 0n
}
