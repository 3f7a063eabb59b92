import { ChunkList } from '../platform/chunks.ts'
import { linearPattern } from '../platform/linear-pattern.ts'
import { becomesGet, followRedirects, redirectLocation } from '../platform/redirects.ts'
import type { GuestContext, ImportedFunction } from './guest-context.ts'
import type { GuestOptions } from './plugin.ts'

/** Maximum redirects that are followed, as `fetch` does. */
const MAX_REDIRECTS = 20

/** Extism's functions for HTTP, and the last response of a plug-in. */
export function requestFunctions(options: GuestOptions): Readonly<Record<string, ImportedFunction>> {
  const { allowHttpResponseHeaders, memory } = options
  const isAllowed = hostMatcher(options.allowedHosts)
  let status = 0
  let headers: Record<string, string> | undefined

  async function http_request(context: GuestContext, requestAt: bigint, bodyAt: bigint): Promise<bigint> {
    status = 0
    headers = undefined
    const request = context.read(requestAt)?.json()
    if (!request) return 0n
    const method: string = request.method?.toUpperCase() ?? 'GET'
    const hasBody = bodyAt !== 0n && method !== 'GET' && method !== 'HEAD'
    const body = hasBody ? context.read(bodyAt)?.bytes().slice() : undefined
    const response = await follow({
      url: new URL(request.url),
      method,
      headers: request.headers || request.header || {},
      ...(body && { body }),
    })
    status = response.status
    headers = Object.fromEntries(response.headers)
    return context.store(await readResponseBytes(response, memory.maxHttpResponseBytes))
  }

  /** Follows redirects, each of which must lead to an allowed host, like the first request. */
  function follow(first: OutgoingRequest): Promise<Response> {
    return followRedirects(first, {
      send({ url, ...init }) {
        if (isAllowed(url.hostname)) return options.fetch(url.href, { ...init, redirect: 'manual' })
        const reason = `is not allowed (no allowedHosts match "${url.hostname}")`
        throw new Error(`Call error: HTTP request to "${url}" ${reason}`)
      },
      async next(request, { status, headers, body }) {
        const location = redirectLocation(status, headers.get('location'))
        if (location === undefined) return undefined
        await body?.cancel()
        return redirected(request, status, new URL(location, request.url))
      },
      maxRedirects: MAX_REDIRECTS,
      tooMany: () => new Error(`Call error: HTTP request to "${first.url}": too many redirects`),
    })
  }

  return {
    http_request,
    http_status_code: () => status,
    http_headers: (context: GuestContext) =>
      allowHttpResponseHeaders ? context.store(JSON.stringify(headers ?? {})) : 0n,
  }
}

interface OutgoingRequest {
  readonly url: URL
  readonly method: string
  readonly headers: HeadersInit
  readonly body?: Uint8Array<ArrayBuffer>
}

/** Follows the fetch standard: some redirects become a GET, and another origin gets no credentials. */
function redirected({ body, ...request }: OutgoingRequest, status: number, url: URL): OutgoingRequest {
  const isGet = becomesGet(status, request.method)
  const headers = new Headers(request.headers)
  if (isGet) for (const name of [...headers.keys()]) if (name.startsWith('content-')) headers.delete(name)
  if (url.origin !== request.url.origin)
    for (const name of ['authorization', 'cookie', 'host']) headers.delete(name)
  return { url, headers, method: isGet ? 'GET' : request.method, ...(body && !isGet && { body }) }
}

/** @throws Error beyond the limit, as in Extism's Rust and Go SDKs: to a guest an empty body would be an answer. */
async function readResponseBytes(response: Response, most: number | undefined): Promise<Uint8Array> {
  if (!most) return new Uint8Array(await response.arrayBuffer())
  const chunks = new ChunkList()
  let length = 0
  for await (const chunk of response.body ?? []) {
    chunks.add(chunk)
    length += chunk.length
    if (length > most) throw new Error(`Response body exceeded ${most} bytes`)
  }
  return chunks.join()
}

/**
 * Matches hosts against patterns. In a pattern `*` matches any text, `?` a character, `[a-c]` one of a range, and `{a,b}`
 * either text.
 */
export function hostMatcher(patterns: readonly string[]): (hostname: string) => boolean {
  const exact = new Set(patterns)
  const globs = patterns.flatMap(expandBraces).map(globMatcher)
  return (hostname) => exact.has(hostname) || globs.some((fits) => fits(hostname))
}

/** Maximum expansions of one pattern. */
const MAX_EXPANDED = 1_000

function expandBraces(pattern: string): string[] {
  const done: string[] = []
  const left = [pattern]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const choice = [...next.matchAll(/\{([^{}]*)\}/g)].find(([braces]) => braces.includes(','))
    if (!choice) done.push(next)
    else left.push(...(choice[1] ?? '').split(',').map((each) => replaceAt(next, choice, each)))
    if (done.length + left.length > MAX_EXPANDED)
      throw new Error(`allowedHosts: "${pattern}" has too many choices`)
  }
  return done
}

function replaceAt(text: string, { 0: found, index }: RegExpExecArray, by: string): string {
  return text.slice(0, index) + by + text.slice(index + found.length)
}

/** Matches like a shell: a wildcard at the start matches no dot. */
function globMatcher(pattern: string): (hostname: string) => boolean {
  const isNegated = pattern.startsWith('!')
  const source = pattern.slice(isNegated ? 1 : 0).replace(/\*+|\?|\[!?[^\]]+\]|./gsu, (part) => {
    if (part.startsWith('*')) return '[^]*'
    if (part === '?') return '[^]'
    if (part.length > 2) return part.replace(/^\[!/, '[^').replaceAll('\\', '\\\\')
    return part.replace(/[\^$\\.*+?()[\]{}|/]/, '\\$&')
  })
  const glob = linearPattern(`^${source}$`)
  const fits = (hostname: string) => hostname !== '' && !hostname.startsWith('.') && glob.test(hostname)
  if (isNegated) return (hostname) => !fits(hostname)
  return pattern.startsWith('.') ? (hostname) => glob.test(hostname) : fits
}
