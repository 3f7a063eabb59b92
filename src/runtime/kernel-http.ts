/** How a guest reaches other servers. */
export interface GuestHttp {
  /** Status of the last response; 0 before there was one. */
  readonly status: number
  /** Headers of the last response, as JSON; none before there was one. */
  readonly headers: Uint8Array | undefined

  /**
   * @param request - Extism's JSON: `{ "url", "method", "headers" }`. Good only until this returns.
   * @param body - Empty if there is none.
   * @returns the body of the response.
   * @throws Error if it may not be sent, or failed: the call ends as by a trap.
   */
  request(request: Uint8Array, body: Uint8Array): Uint8Array
}

/** No host is allowed, so nothing is ever sent. */
export const refuseHttp: GuestHttp = {
  status: 0,
  headers: undefined,
  request() {
    throw new Error('HTTP requests are not allowed: no host is allowed')
  },
}
