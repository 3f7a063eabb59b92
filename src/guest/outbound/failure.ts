import { isNativeError } from 'node:util/types'
import { OutboundFailedError } from '../../errors/errors.ts'
import type { Target } from './target.ts'

/** Makes of what Node's client throws an error that the guest's author understands; ours stay as they are. */
export function toFailure(error: unknown, { url, name }: Target): unknown {
  const code = isNativeError(error) ? (error as NodeJS.ErrnoException).code : undefined
  if (code === undefined || code.startsWith('WASM_SERVE_')) return error
  return new OutboundFailedError(name, whyFailed(code, url), { cause: error })
}

function whyFailed(code: string, { protocol, host, hostname }: URL): string {
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} is not known (${code})`
    case 'ECONNREFUSED':
      return `nothing listens on ${host}`
    case 'ECONNRESET':
    case 'EPIPE':
      return `${host} closed the connection before the end`
    case 'HPE_HEADER_OVERFLOW':
      return `the headers of ${host} are larger than 16 KiB`
  }
  if (code.startsWith('HPE_')) return `${host} did not answer in HTTP (${code})`
  // What can be wrong with a certificate has dozens of codes, unlike the system's all with an underscore.
  if (protocol === 'https:' && (code.includes('_') || code === 'EPROTO'))
    return `no trusted TLS connection to ${host} (${code})`
  return `${host} cannot be reached (${code})`
}
