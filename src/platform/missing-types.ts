import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'

/*
 * What Node.js and V8 have, and the types of them do not say: the only place where a type is claimed that the compiler
 * cannot see.
 */

/** A guest that waits for a promise. V8 has it not on Node 20 and 22. */
export interface Suspending {
  /** Makes an import for which the guest waits. */
  readonly Suspending: new (
    run: (...args: unknown[]) => unknown,
  ) => WebAssembly.ImportValue
  /** Makes a function of an export that answers later. */
  readonly promising: (run: () => unknown) => () => Promise<unknown>
}

/**
 * None where V8 has no such thing.
 *
 * @see {@link https://github.com/WebAssembly/js-promise-integration}
 */
export const suspending = 'Suspending' in WebAssembly ? (WebAssembly as unknown as Suspending) : undefined

/**
 * An exchange of HTTP/2 as one of HTTP/1.1: it has the same properties and methods.
 *
 * @see {@link https://nodejs.org/api/http2.html#compatibility-api}
 */
export function asHttp1Exchange(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
): { readonly request: IncomingMessage; readonly response: ServerResponse } {
  return {
    request: request as unknown as IncomingMessage,
    response: response as unknown as ServerResponse,
  }
}

/** Whether a request of HTTP/2 has no body: there no header needs to say so. */
export function endsWithHeaders(request: IncomingMessage): boolean {
  return (request as unknown as Http2ServerRequest).stream.endAfterHeaders
}
