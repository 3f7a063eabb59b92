/** A request, as curl is to send it. */
export interface CurlRequest {
  /** Of the server: `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`. */
  readonly server: string
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: CurlBody
}

export type CurlBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'base64'; readonly text: string }
  | { readonly kind: 'file'; readonly name: string }

const UNIX = 'unix:'

/** The line that does in a shell what the form does. */
export function renderCurl({ server, method, path, headers, body }: CurlRequest): string {
  const data = body.kind !== 'none'
  const words = ['curl', '-i']
  if (method === 'HEAD') words.push('--head')
  else if (method !== (data ? 'POST' : 'GET')) words.push('-X', method)
  if (server.startsWith(UNIX)) words.push('--unix-socket', quote(server.slice(UNIX.length)))
  words.push(quote((server.startsWith(UNIX) ? 'http://localhost' : server) + path))
  for (const [name, value] of Object.entries(headers)) {
    words.push('-H', quote(value === '' ? `${name};` : `${name}: ${value}`)) // "name:" would take the header away
  }
  if (body.kind === 'text') words.push('--data-raw', quote(body.text))
  if (body.kind === 'file') words.push('--data-binary', quote(`@${body.name}`))
  if (body.kind !== 'base64') return words.join(' ')
  return `printf %s ${quote(body.text)} | base64 -d | ${words.join(' ')} --data-binary @-`
}

/** As a POSIX shell reads it. */
function quote(word: string): string {
  return /^[\w:/.%~@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
