import { OutboundFailedError } from '../../errors/errors.ts'
import { becomesGet, followRedirects as followAll, redirectLocation } from '../../platform/redirects.ts'
import type { SendableRequest } from './guest-request.ts'
import { showTarget } from './target.ts'

const MAX_REDIRECTS = 5

/** The part of a response that redirects depend on. */
interface RedirectResponse {
  readonly status: number
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Sends a request, and those that its redirects lead to.
 *
 * @param send - Sends one of them. `label` is its target for messages.
 * @param mayFollow - Whether a redirect is followed. A response with another one is a result. Default: all are.
 * @throws {@link OutboundFailedError} after five redirects, or if one leads to no valid URL.
 */
export async function followRedirects<Response extends RedirectResponse>(
  first: SendableRequest,
  send: (request: SendableRequest, label: string) => Promise<Response>,
  mayFollow: (next: SendableRequest) => boolean = () => true,
): Promise<Response> {
  return followAll(first, {
    send: (request) => send(request, requestLabel(request, first)),
    next(request, response) {
      const next = redirectedRequest(request, response)
      return next && mayFollow(next) ? next : undefined
    },
    maxRedirects: MAX_REDIRECTS,
    tooMany: () =>
      new OutboundFailedError(showTarget(first.url), `it was redirected more than ${MAX_REDIRECTS} times`),
  })
}

/** Names the request in messages. */
function requestLabel({ url }: SendableRequest, first: SendableRequest): string {
  return url === first.url ? showTarget(url) : `${showTarget(url)} (redirected from ${showTarget(first.url)})`
}

/**
 * The request that a redirect leads to, as `fetch` makes it: 303, and 301 and 302 after a POST, become a GET without
 * body; 307 and 308 keep the body, to another origin too. Another origin receives only headers that hold no
 * credentials: a header of any other name may hold a key. The target is not checked here.
 *
 * @returns undefined if the response is not a redirect.
 * @throws {@link OutboundFailedError} if its target is not a valid URL.
 */
export function redirectedRequest(
  request: SendableRequest,
  { status, headers }: RedirectResponse,
): SendableRequest | undefined {
  const location = redirectLocation(status, headers.location)
  if (location === undefined) return undefined
  if (!URL.canParse(location, request.url))
    throw new OutboundFailedError(showTarget(request.url), 'it was redirected to an invalid URL')

  const url = new URL(location, request.url)
  const isSame = url.origin === request.url.origin // scheme, host and port
  const kept = [...request.headers].filter(([name]) => isSame || HARMLESS_HEADERS.has(name))
  if (!becomesGet(status, request.method)) return { ...request, url, headers: new Map(kept) }
  const ofGet = kept.filter(([name]) => !BODY_HEADERS.has(name))
  return { url, method: 'GET', headers: new Map(ofGet), body: undefined }
}

/** Headers that describe a body. */
const BODY_HEADERS: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-language',
  'content-location',
  'content-type',
])

/** Headers that are also sent to another origin: they describe response, body or trace, and hold no credentials. */
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
