import type { FastifyInstance } from 'fastify'
import { servedRouteOf } from '../observe/observe.ts'
import { PROBLEM_TYPE, problemDetails, sendBody } from '../route/error-response.ts'

/** Why the plug-in of this name is older than its sources; undefined if it is not. */
export type Staleness = (plugin: string) => StaleReason | undefined

/** A failure to build or to load. */
export interface StaleReason {
  readonly code: string
  readonly message: string
}

/**
 * Lets each route answer why its plug-in is older than its sources: an old answer after an edit would mislead a developer. The
 * plug-in stays, and so does what it knows.
 */
export function answerStale(app: FastifyInstance, staleness: Staleness): void {
  app.addHook('onRequest', (request, reply, done) => {
    const route = servedRouteOf(request)
    const reason = route && staleness(route.plugin)
    if (!reason) return done()
    const { status, headers, body } = staleAnswer(reason, request.headers.accept, request.id)
    reply.code(status).headers(headers)
    sendBody(body, reply)
  })
}

/**
 * Browsers get a page, which loads itself again, others problem details.
 *
 * @param accept - The header of the request: browsers name the type when a user opens a URL, `curl` and `fetch` accept anything.
 */
export function staleAnswer(
  { code, message }: StaleReason,
  accept: string | undefined,
  requestId: string,
): { status: number; headers: Readonly<Record<string, string>>; body: Buffer } {
  const failure = Object.assign(new Error(message), { code, statusCode: 500 })
  const isPage = /\btext\/html\b/i.test(accept ?? '')
  const text = isPage ? renderPage(code, message) : JSON.stringify(problemDetails(failure, requestId))
  return {
    status: failure.statusCode,
    headers: {
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      'content-type': isPage ? 'text/html; charset=utf-8' : PROBLEM_TYPE,
      vary: 'accept',
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
    },
    body: Buffer.from(text),
  }
}

function renderPage(code: string, message: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(code)}</title>
<style>
  body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem; color-scheme: light dark }
  pre { font: 0.875rem/1.5 ui-monospace, monospace; white-space: pre-wrap; border-left: 0.25rem solid #d33; padding-left: 1rem }
</style>
<h1>The last change is not served</h1>
<pre>${escapeHtml(message)}</pre>
<p><code>${escapeHtml(code)}</code>. This page loads itself again until it is.</p>
</html>
`
}

/** Characters that have a meaning in HTML. */
const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? character)
}
