import { OutboundFailedError } from '../../errors/errors.ts'
import type { OutboundResponse } from './client.ts'
import type { SendableRequest } from './guest-request.ts'
import { showTarget } from './target.ts'

/**
 * The request that a redirect asks for, as `fetch` makes it: 303, and 301 and 302 after a POST, become a GET without
 * body; with 307 and 308 the body goes along, to another origin too. Of the headers only those that can be no
 * credentials reach another origin: any name may be one that some server takes a key by. Where it goes is not checked
 * here.
 *
 * @returns undefined if the response is no redirect.
 * @throws {@link OutboundFailedError} if it leads to no URL.
 */
export function redirected(
  request: SendableRequest,
  { status, headers }: OutboundResponse,
): SendableRequest | undefined {
  const { location } = headers
  if (!REDIRECTS.has(status) || location === undefined) return undefined
  if (!URL.canParse(location, request.url))
    throw new OutboundFailedError(showTarget(request.url), 'it is redirected to what is no URL')

  const url = new URL(location, request.url)
  const isSame = url.origin === request.url.origin // scheme, host and port
  const kept = [...request.headers].filter(([name]) => isSame || HARMLESS_HEADERS.has(name))
  if (!becomesGet(status, request.method)) return { ...request, url, headers: new Map(kept) }
  const ofGet = kept.filter(([name]) => !BODY_HEADERS.has(name))
  return { url, method: 'GET', headers: new Map(ofGet), body: undefined }
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** Those that describe a body. */
const BODY_HEADERS: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-language',
  'content-location',
  'content-type',
])

/** What another origin may know: which answer is wanted, what the body is, and which trace the request belongs to. */
const HARMLESS_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-encoding',
  'content-language',
  'content-type',
  'range',
  'traceparent',
  'user-agent',
])

function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return status < 303 && method === 'POST'
}
