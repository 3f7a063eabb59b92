import type { ListenAddress } from '../server/listen.ts'

/** Where the admin listener listens. */
export interface AdminAddress extends ListenAddress {
  /** Whether only programs of this machine reach it. */
  readonly isLocal: boolean
}

/** Reads the option `admin`, which was checked. A port alone is one of the loopback interface. */
export function parseAdminAddress(text: string): AdminAddress {
  if (text.includes('/')) return { host: '', port: 0, socket: text, isLocal: true }
  const [, given = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(text) ?? []
  const host = given.replace(/^\[|\]$/g, '')
  return { host, port: Number(port), isLocal: isLoopback(host) }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d+){3}$/.test(host)
}
