import type { MaybePromise } from '../../platform/maybe-promise.ts'
import { EXTISM_ENV } from '../../plugin/host-imports.ts'
import { type GuestHttp, HTTP_REQUEST, type HttpResponse } from '../outbound/guest-http.ts'
import { defineService, type Operation } from './define-service.ts'

interface Operations {
  readonly send: Operation<[request: Uint8Array, body: Uint8Array], MaybePromise<HttpResponse>>
}

/** HTTP requests of guests to other servers. */
export const http = defineService<Operations, GuestHttp>({
  name: 'http',
  operations: { send: ['bytes', 'bytes'] },
  movesBytes: true,
  isOffered: ({ outbound }) => outbound !== undefined,
  waitsFor: ({ imports }) =>
    imports.some(({ module, name }) => module === EXTISM_ENV && name === HTTP_REQUEST) ? OUTBOUND : undefined,
  needsKernel: () => OUTBOUND,
  open: (_use, { http }) =>
    http && {
      direct: http.direct,
      run: (_operation, [request, body], call) => http.send(request, body, call),
    },
  clientOf: ({ suspends, ask }) => ({
    isAsync: suspends,
    // Copies: here the bytes are in the kernel's memory.
    send: (request, body, caller) => ask.send(caller, new Uint8Array(request), new Uint8Array(body)),
  }),
  serve: (client) => ({ http: client }),
})

/** What guests wait for. */
export const OUTBOUND = 'outbound HTTP'
