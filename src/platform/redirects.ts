const STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** How a kind of client follows redirects. */
interface RedirectRules<Request, Response> {
  send(request: Request): Promise<Response>
  /** The request that a response leads to; undefined for the last response, whose body must stay open. */
  next(request: Request, response: Response): Request | undefined | Promise<Request | undefined>
  readonly maxRedirects: number
  tooMany(): Error
}

/** Sends a request, and those that its redirects lead to. */
export async function followRedirects<Request, Response>(
  first: Request,
  rules: RedirectRules<Request, Response>,
): Promise<Response> {
  let request = first
  for (let redirects = 0; ; redirects++) {
    const response = await rules.send(request)
    const next = await rules.next(request, response)
    if (next === undefined) return response
    if (redirects === rules.maxRedirects) throw rules.tooMany()
    request = next
  }
}

/** Where a response redirects to: a text that may be no URL. undefined if it is no redirect. */
export function redirectLocation(status: number, location: string | null | undefined): string | undefined {
  return STATUSES.has(status) ? (location ?? undefined) : undefined
}

/** Whether the request after a redirect is a GET without a body: after 303, and after 301 and 302 of a POST, as with `fetch`. */
export function becomesGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD'
  return status < 303 && method === 'POST'
}
