import {
  DownloadRefusedError,
  DownloadTimeoutError,
  DownloadTooLargeError,
  DownloadUnreachableError,
} from '../../errors/errors.ts'
import { isHeaderValue } from '../../platform/text.ts'
import { AUTHORIZATION_VARIABLE, showUrl, whyRefused } from './url.ts'

export interface DownloadOptions {
  /**
   * Value of the `Authorization` header, such as `Bearer xyz`. Sent to the first URL's origin only; never part of a
   * message.
   */
  readonly authorization?: string | undefined
  /** Sent to the first URL's origin only. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** In upper case. Default: GET. */
  readonly method?: string | undefined
  /** The ETag of a copy that we have. */
  readonly etag?: string | undefined
  /** Default: 256 MiB. */
  readonly maxBytes?: number | undefined
  /** Of all: redirects, headers, body. Default: 30 s. */
  readonly timeoutMs?: number | undefined
  /** Ends the download early: nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined
}

export interface Download {
  readonly bytes: Uint8Array
  readonly etag: string | undefined
}

const MAX_REDIRECTS = 5

/**
 * Downloads what a URL names. At most five redirects are followed; each must be a URL that could have been asked for,
 * and none leads from https to http, nor from the network to this machine.
 *
 * @returns undefined if the server says that the copy with `etag` is still the same.
 * @throws {@link DownloadRefusedError} if the server answers with no plug-in.
 * @throws {@link DownloadUnreachableError} if no server can be reached, or it failed.
 * @throws {@link DownloadTimeoutError} after `timeoutMs` milliseconds.
 * @throws {@link DownloadTooLargeError} at `maxBytes`, without reading further.
 */
export async function download(url: URL, options: DownloadOptions = {}): Promise<Download | undefined> {
  const { authorization, maxBytes = 268_435_456, timeoutMs = 30_000 } = options
  if (authorization !== undefined && !isHeaderValue(authorization))
    throw new DownloadRefusedError(showUrl(url), `${AUTHORIZATION_VARIABLE} cannot be sent as a header`)

  // Whoever ends it early has an error already: this one, of the time limit, is not seen.
  const ended = new AbortController()
  const end = () => ended.abort()
  const timer = setTimeout(end, timeoutMs)
  options.signal?.addEventListener('abort', end)
  try {
    const response = await follow(url, options, ended.signal)
    if (response.status === 304 && options.etag !== undefined) return undefined
    const refused = whyNoPlugin(response, authorization !== undefined)
    if (refused !== undefined) {
      await response.body?.cancel()
      throw new DownloadRefusedError(showUrl(url), refused)
    }
    const bytes = await readBody(response, url, maxBytes)
    return { bytes, etag: response.headers.get('etag') ?? undefined }
  } catch (error) {
    if (ended.signal.aborted) throw new DownloadTimeoutError(showUrl(url), timeoutMs)
    throw error instanceof TypeError ? networkError(url, error) : error
  } finally {
    clearTimeout(timer)
    options.signal?.removeEventListener('abort', end)
  }
}

async function follow(first: URL, options: DownloadOptions, signal: AbortSignal): Promise<Response> {
  let url = first
  let method = options.method ?? 'GET'
  let headers = { ...neutralHeaders(), ...ownHeaders(options) }
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(url, { method, headers, redirect: 'manual', signal })
    if (response.status >= 500 || response.status === 429) {
      await response.body?.cancel()
      throw new DownloadUnreachableError(showUrl(first), `the server failed (status ${response.status})`)
    }
    const location = response.headers.get('location')
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return response

    await response.body?.cancel()
    if (redirects === MAX_REDIRECTS)
      throw new DownloadRefusedError(showUrl(first), `it is redirected more than ${MAX_REDIRECTS} times`)
    const next = redirectTarget(first, url, location)
    if (next.origin !== url.origin) headers = neutralHeaders()
    // As the Fetch standard says.
    if (response.status === 303 || (response.status < 307 && method === 'POST')) method = 'GET'
    url = next
  }
}

function neutralHeaders(): Record<string, string> {
  // The bytes are hashed as they come, so they should come as they are.
  return { accept: 'application/wasm, application/json, */*;q=0.5', 'accept-encoding': 'identity' }
}

function ownHeaders({ authorization, headers, etag }: DownloadOptions): Record<string, string> {
  const own = Object.fromEntries(
    Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  )
  if (authorization !== undefined) own.authorization ??= authorization
  if (etag !== undefined) own['if-none-match'] = etag
  return own
}

function redirectTarget(first: URL, from: URL, location: string): URL {
  const next = URL.canParse(location, from) ? new URL(location, from) : undefined
  const problem = next ? whyRefused(next, from) : 'it is not a URL'
  if (next && problem === undefined) return next
  const target = next ? showUrl(next) : 'something else'
  throw new DownloadRefusedError(showUrl(first), `it is redirected to ${target}: ${problem}`)
}

function whyNoPlugin({ status, headers }: Response, authorized: boolean): string | undefined {
  const credentials = authorized
    ? `it does not accept the credentials of ${AUTHORIZATION_VARIABLE}`
    : `it may want credentials: set ${AUTHORIZATION_VARIABLE}, for example to "Bearer ..."`
  switch (status) {
    case 200:
    case 203:
      return isHtml(headers) ? 'the answer is an HTML page: a page about the file, or to log in?' : undefined
    case 401:
    case 403:
      return `access is refused (status ${status}); ${credentials}`
    case 404:
    case 410:
      return `there is nothing at this address (status ${status}), or not for us; ${credentials}`
    default:
      return `the server answered with status ${status}`
  }
}

function isHtml(headers: Headers): boolean {
  return /^(?:text\/html|application\/xhtml)/i.test(headers.get('content-type') ?? '')
}

async function readBody(response: Response, url: URL, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  const announced = Number(response.headers.get('content-length') ?? 0)
  if (announced > maxBytes) {
    await response.body?.cancel()
    throw new DownloadTooLargeError(showUrl(url), maxBytes)
  }
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new DownloadTooLargeError(showUrl(url), maxBytes) // leaving the loop ends the body
    chunks.push(chunk)
  }
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}

/** What `fetch` could not do: it hides the reason in `cause`. A certificate that is wrong is no reason for a cached copy. */
function networkError(url: URL, error: TypeError): Error {
  const cause = error.cause instanceof Error ? error.cause : error
  const code = String((cause as NodeJS.ErrnoException).code ?? '')
  if (/CERT|TLS|SSL|SIGNATURE|EPROTO/.test(code)) {
    const hint = 'for a CA of your own, name it in NODE_EXTRA_CA_CERTS'
    return new DownloadRefusedError(showUrl(url), `no trusted TLS connection (${code}); ${hint}`, { cause })
  }
  return new DownloadUnreachableError(showUrl(url), whyUnreachable(code, url, cause), { cause })
}

function whyUnreachable(code: string, { hostname, host }: URL, cause: Error): string {
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} is not known (${code}): a typing error, or no network?`
    case 'ECONNREFUSED':
      return `nothing listens on ${host}`
    case 'UND_ERR_CONNECT_TIMEOUT':
      return `${host} does not answer`
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return `${host} closed the connection before the end`
    default:
      return cause.message
  }
}
