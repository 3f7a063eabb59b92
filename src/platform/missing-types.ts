import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'

/*
 * Features of Node.js and V8 that their type declarations lack: the only place with type assertions that the compiler
 * cannot check.
 */

/** Lets a guest wait for a promise. Not available on Node 20 and 22. */
export interface Suspending {
  /** Makes an import for which the guest waits. */
  readonly Suspending: new (
    run: (...args: unknown[]) => unknown,
  ) => WebAssembly.ImportValue
  /** Makes a function of an export that answers later. */
  readonly promising: (run: () => unknown) => () => Promise<unknown>
}

/**
 * undefined if V8 does not support it.
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

/** An answer of HTTP/2 as Node made it; undefined for HTTP/1. */
export function http2ResponseOf(response: ServerResponse): Http2ServerResponse | undefined {
  return 'stream' in response ? (response as unknown as Http2ServerResponse) : undefined
}
