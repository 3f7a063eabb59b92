import type { GuestHttp, HttpResponse } from '../../runtime/kernel-http.ts'
import type { HostAsker } from './host-client.ts'

/** HTTP requests that the main thread sends, while the worker waits. */
export function bridgedHttp(client: HostAsker): GuestHttp {
  return {
    isAsync: false,
    // Copies: a message carries all of the buffer in which bytes lie, and that is the kernel's memory.
    send: (request, body) =>
      client.ask('http', new Uint8Array(request), new Uint8Array(body)) as HttpResponse,
  }
}
