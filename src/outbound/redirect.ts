import { OutboundFailedError } from '../errors.ts'
import type { OutboundResponse } from './client.ts'
import type { SendableRequest } from './guest-request.ts'
import { showTarget } from './target.ts'

/**
 * The request that a redirect asks for, as `fetch` makes it: 303, and 301 and 302 after a POST, become a GET without
 * body; what identifies the guest to one origin does not reach another. Where it goes is not checked here.
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
  const dropped = url.origin === request.url.origin ? [] : ['authorization', 'cookie']
  if (!becomesGet(status, request.method)) return { ...request, url, headers: without(request, dropped) }
  return { url, method: 'GET', headers: without(request, [...dropped, ...BODY_HEADERS]), body: undefined }
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** Those that describe a body. */
const BODY_HEADERS = ['content-encoding', 'content-language', 'content-location', 'content-type']

function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return status < 303 && method === 'POST'
}

function without({ headers }: SendableRequest, names: readonly string[]): Map<string, string> {
  return new Map([...headers].filter(([name]) => !names.includes(name)))
}
