import { isNativeError } from 'node:util/types'
import { OutboundFailedError } from '../../errors/errors.ts'
import { ENDLESS_INTERIM } from './client.ts'
import type { Target } from './target.ts'

/** Translates errors of Node's client for the author of the guest. Errors of wasm-serve pass unchanged. */
export function toOutboundError(error: unknown, { url, name }: Target): unknown {
  const code = isNativeError(error) && 'code' in error ? error.code : undefined
  if (typeof code !== 'string' || code.startsWith('WASM_SERVE_')) return error
  return new OutboundFailedError(name, failureReason(code, url), { cause: error })
}

function failureReason(code: string, { protocol, host, hostname }: URL): string {
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} does not resolve (${code})`
    case 'ECONNREFUSED':
      return `nothing listens on ${host}`
    case 'ECONNRESET':
    case 'EPIPE':
      return `${host} closed the connection before the end`
    case ENDLESS_INTERIM:
      return `${host} sent only interim responses (1xx)`
    case 'HPE_HEADER_OVERFLOW':
      return `the headers of ${host} are larger than 16 KiB`
  }
  if (code.startsWith('HPE_')) return `${host} did not respond in HTTP (${code})`
  // Certificate errors have dozens of codes; unlike those of the system, all contain an underscore.
  if (protocol === 'https:' && (code.includes('_') || code === 'EPROTO'))
    return `no trusted TLS connection to ${host} (${code})`
  return `${host} cannot be reached (${code})`
}
