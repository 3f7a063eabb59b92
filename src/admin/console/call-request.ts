import { fromBase64 } from './format.ts'

/** The kinds of body that the form offers, with their labels and content types. */
export const BODY_KINDS = {
  text: { label: 'Text', type: 'text/plain; charset=utf-8' },
  json: { label: 'JSON', type: 'application/json' },
  base64: { label: 'Base64', type: 'application/octet-stream' },
  file: { label: 'File', type: 'application/octet-stream' },
  none: { label: 'None', type: undefined },
} as const

export type BodyKind = keyof typeof BODY_KINDS

/** The request in the form. */
export interface CallRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  /** The host name of a virtual host. */
  readonly host?: string | undefined
  /** The text of the form: one header per line. */
  readonly headers: string
  readonly kind: BodyKind
  /** The body, unless it is a file. */
  readonly text: string
  readonly file?: File | undefined
}

/** The reason that the body cannot be sent; undefined if it can. */
export function problemWithBody({ kind, text, file }: CallRequest): string | undefined {
  if (kind === 'file' && !file) return 'Choose a file first.'
  if (kind === 'base64' && !fromBase64(text)) return 'This is not base64.'
  if (kind !== 'json') return undefined
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : error}`
  }
}

/** The bytes of the body; undefined if it has none. */
export async function bytesOfBody({ kind, text, file }: CallRequest): Promise<Uint8Array | undefined> {
  if (kind === 'none') return undefined
  if (kind === 'file') return file && new Uint8Array(await file.arrayBuffer())
  return kind === 'base64' ? fromBase64(text) : new TextEncoder().encode(text)
}

/** Headers by name. Those from the form override the host and the content type of the body. */
export function headersOf({ host, kind, file, headers }: CallRequest): Record<string, string> {
  const type = (kind === 'file' && file?.type) || BODY_KINDS[kind].type
  const found: Record<string, string> = {}
  if (host !== undefined) found.host = host
  if (type !== undefined) found['content-type'] = type
  for (const line of headers.split('\n')) {
    const [, name, value = ''] = /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line) ?? []
    if (name !== undefined) found[name.toLowerCase()] = value
  }
  return found
}

const UNIX_SCHEME = 'unix:'

/**
 * The command line that sends the request from a POSIX shell.
 *
 * @param server - `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`.
 */
export function renderCurl(server: string, request: CallRequest): string {
  const { method, path, kind, text, file } = request
  const words = ['curl', '-i']
  if (method === 'HEAD') words.push('--head')
  else if (method !== (kind === 'none' ? 'GET' : 'POST')) words.push('-X', method)
  if (server.startsWith(UNIX_SCHEME))
    words.push('--unix-socket', quoteForShell(server.slice(UNIX_SCHEME.length)))
  words.push(quoteForShell((server.startsWith(UNIX_SCHEME) ? 'http://localhost' : server) + path))
  for (const [name, value] of Object.entries(headersOf(request)))
    words.push('-H', quoteForShell(value === '' ? `${name};` : `${name}: ${value}`)) // "name:" removes the header
  if (kind === 'text' || kind === 'json') words.push('--data-raw', quoteForShell(text))
  if (kind === 'file') words.push('--data-binary', quoteForShell(`@${file?.name ?? 'FILE'}`))
  if (kind !== 'base64') return words.join(' ')
  const digits = quoteForShell(text.replaceAll(/\s/g, ''))
  return `printf %s ${digits} | base64 -d | ${words.join(' ')} --data-binary @-`
}

function quoteForShell(word: string): string {
  return /^[\w:/.%~@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
