import {
  DigestMismatchError,
  DownloadRefusedError,
  DownloadTimeoutError,
  DownloadTooLargeError,
  DownloadUnreachableError,
} from '../../errors/errors.ts'
import { ChunkList } from '../../platform/chunks.ts'
import { becomesGet, followRedirects, redirectLocation } from '../../platform/redirects.ts'
import { isHeaderValue } from '../../platform/text.ts'
import { type ContentCache, openContentCache } from './content-cache.ts'
import { sha256InSlices } from './digest.ts'
import { networkProblem } from './network-problem.ts'
import { AUTHORIZATION_VARIABLE, refusalReason, showUrl } from './url.ts'

export interface CachedDownloadOptions extends DownloadOptions {
  /** SHA-256 in lower-case hex: only these bytes are returned, and the cache is tried before a download. */
  readonly digest?: string | undefined
  /** The cache folder, created on demand. undefined: no cache. */
  readonly cacheFolder?: string | undefined
}

interface CachedDownload {
  readonly bytes: Uint8Array
  /** Warnings: the cached copy is used because the server is unreachable, or the cache cannot be written. */
  readonly warnings: readonly string[]
}

/**
 * Downloads through a cache on disk. With a digest, the cache is tried first. Without one, the network is tried first and
 * the cache is the fallback, only for GET, because answers to other methods are valid once. Entries are verified when they
 * are read, and damaged ones removed. If other users can write to the cache, only entries with a known digest are used, and
 * nothing is stored.
 *
 * @throws {@link DigestMismatchError} if the server's bytes do not match the digest; they are not stored.
 * @throws the errors of `download`, if the cache has no copy.
 */
export async function downloadCached(url: URL, options: CachedDownloadOptions = {}): Promise<CachedDownload> {
  const { digest, cacheFolder } = options
  const warnings: string[] = []
  const cache = cacheFolder === undefined ? undefined : openContentCache(cacheFolder, warnings)
  const request = JSON.stringify([url.href, options.method, options.headers])
  const pinned = digest === undefined ? undefined : await cache?.read(digest)
  if (pinned) return { bytes: pinned, warnings }

  const isRepeatable = (options.method ?? 'GET') === 'GET'
  const known = cache && digest === undefined && isRepeatable ? await lookUp(cache, request) : undefined
  try {
    const answer = await download(url, { ...options, etag: known?.etag })
    if (!answer && known) return { bytes: known.bytes, warnings }
    if (!answer) throw new DownloadUnreachableError(showUrl(url), 'the server sent no bytes')
    const actual = await sha256InSlices(answer.bytes)
    if (digest !== undefined && actual !== digest) throw new DigestMismatchError(showUrl(url), digest, actual)
    if (isRepeatable || digest !== undefined) {
      await cache?.write(actual, answer.bytes)
      await cache?.writeRequest(request, { digest: actual, etag: answer.etag })
    }
    return { bytes: answer.bytes, warnings }
  } catch (error) {
    if (!known || !isOffline(error)) throw error
    return { bytes: known.bytes, warnings: [...warnings, `${error.message}; using the cached copy`] }
  }
}

function isOffline(error: unknown): error is Error {
  return error instanceof DownloadUnreachableError || error instanceof DownloadTimeoutError
}

/** The last known content of a URL. */
async function lookUp(
  cache: ContentCache,
  request: string,
): Promise<{ readonly bytes: Uint8Array; readonly etag: string | undefined } | undefined> {
  const answer = await cache.request(request)
  const bytes = answer && (await cache.read(answer.digest))
  return bytes && { bytes, etag: answer.etag }
}

interface DownloadOptions {
  /**
   * Value of the `Authorization` header, such as `Bearer xyz`. Sent to the first URL's origin only; never part of a
   * message.
   */
  readonly authorization?: string | undefined
  /** Sent to the first URL's origin only. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** In upper case. Default: GET. */
  readonly method?: string | undefined
  /** The ETag of the cached copy. */
  readonly etag?: string | undefined
  /** Default: 256 MiB. */
  readonly maxBytes?: number | undefined
  /** The limit of the whole download: redirects, headers, body. Default: 30 s. */
  readonly timeoutMs?: number | undefined
  /** Aborts the download. */
  readonly signal?: AbortSignal | undefined
}

interface Download {
  readonly bytes: Uint8Array
  readonly etag: string | undefined
}

const MAX_REDIRECTS = 5

/**
 * Downloads a URL. Follows at most five redirects. Each target must be a permitted URL, and none may lead from https to
 * http, or from the network to this machine.
 *
 * @returns undefined if the server confirms that the copy with `etag` is current.
 * @throws {@link DownloadRefusedError} if the response is not a plug-in.
 * @throws {@link DownloadUnreachableError} if the server is unreachable or failed.
 * @throws {@link DownloadTimeoutError} after `timeoutMs` milliseconds.
 * @throws {@link DownloadTooLargeError} at `maxBytes`, without reading further.
 */
export async function download(url: URL, options: DownloadOptions = {}): Promise<Download | undefined> {
  const { authorization, maxBytes = 268_435_456, timeoutMs = 30_000 } = options
  if (authorization !== undefined && !isHeaderValue(authorization))
    throw new DownloadRefusedError(showUrl(url), `${AUTHORIZATION_VARIABLE} cannot be sent as a header`)

  // An aborting caller already has its error, so the error of the time limit is not visible.
  const ended = new AbortController()
  const end = () => ended.abort()
  const timer = setTimeout(end, timeoutMs)
  options.signal?.addEventListener('abort', end)
  try {
    const response = await follow(url, options, ended.signal)
    if (response.status === 304 && options.etag !== undefined) return undefined
    const refused = rejectionReason(response, authorization !== undefined)
    if (refused !== undefined) {
      await response.body?.cancel()
      throw new DownloadRefusedError(showUrl(url), refused)
    }
    const bytes = await readBody(response, url, maxBytes)
    return { bytes, etag: response.headers.get('etag') ?? undefined }
  } catch (error) {
    if (ended.signal.aborted) throw new DownloadTimeoutError(showUrl(url), timeoutMs)
    throw explainDownloadFailure(url, error)
  } finally {
    clearTimeout(timer)
    options.signal?.removeEventListener('abort', end)
  }
}

function follow(first: URL, options: DownloadOptions, signal: AbortSignal): Promise<Response> {
  const { method = 'GET' } = options
  const request: DownloadRequest = {
    url: first,
    method,
    headers: { ...neutralHeaders(), ...ownHeaders(options) },
  }
  return followRedirects(request, {
    async send({ url, ...init }) {
      const response = await fetch(url, { ...init, redirect: 'manual', signal })
      if (response.status < 500 && response.status !== 429) return response
      await response.body?.cancel()
      throw new DownloadUnreachableError(showUrl(first), `the server failed (status ${response.status})`)
    },
    async next({ url, method, headers }, { status, headers: received, body }) {
      const location = redirectLocation(status, received.get('location'))
      if (location === undefined) return undefined
      await body?.cancel()
      const next = redirectTarget(first, url, location)
      return {
        url: next,
        method: becomesGet(status, method) ? 'GET' : method,
        headers: next.origin === url.origin ? headers : neutralHeaders(),
      }
    },
    maxRedirects: MAX_REDIRECTS,
    tooMany: () =>
      new DownloadRefusedError(showUrl(first), `it is redirected more than ${MAX_REDIRECTS} times`),
  })
}

interface DownloadRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Record<string, string>
}

function neutralHeaders(): Record<string, string> {
  // The digest is that of the original bytes, so ask for no content coding.
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
  const problem = next ? refusalReason(next, from) : 'it is not a URL'
  if (next && problem === undefined) return next
  const target = next ? showUrl(next) : 'something else'
  throw new DownloadRefusedError(showUrl(first), `it is redirected to ${target}: ${problem}`)
}

function rejectionReason({ status, headers }: Response, authorized: boolean): string | undefined {
  const credentials = authorized
    ? `it does not accept the credentials of ${AUTHORIZATION_VARIABLE}`
    : `it may want credentials: set ${AUTHORIZATION_VARIABLE}, for example to "Bearer ..."`
  switch (status) {
    case 200:
    case 203:
      return isHtml(headers)
        ? 'the response is an HTML page, perhaps a page about the file or a login page'
        : undefined
    case 401:
    case 403:
      return `access is refused (status ${status}); ${credentials}`
    case 404:
    case 410:
      return `nothing is available at this address (status ${status}), or access is denied; ${credentials}`
    default:
      return `the server answered with status ${status}`
  }
}

function isHtml(headers: Headers): boolean {
  return /^(?:text\/html|application\/xhtml)/i.test(headers.get('content-type') ?? '')
}

async function readBody(response: Response, url: URL, maxBytes: number): Promise<Uint8Array> {
  const chunks = new ChunkList()
  let length = 0
  const announced = Number(response.headers.get('content-length') ?? 0)
  if (announced > maxBytes) {
    await response.body?.cancel()
    throw new DownloadTooLargeError(showUrl(url), maxBytes)
  }
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new DownloadTooLargeError(showUrl(url), maxBytes) // leaving the loop ends the body
    chunks.add(chunk)
  }
  return chunks.join()
}

/** Only a failure of the network permits the cached copy: not an invalid certificate, and not another answer than HTTP. */
function explainDownloadFailure(url: URL, error: unknown): unknown {
  const problem = networkProblem(url, error)
  if (!problem) return error
  const { reason, kind, cause } = problem
  if (kind === 'network') return new DownloadUnreachableError(showUrl(url), reason, { cause })
  const hint = kind === 'untrusted' ? '; for a private CA, set NODE_EXTRA_CA_CERTS' : ''
  return new DownloadRefusedError(showUrl(url), reason + hint, { cause })
}
