import type { GuestLog } from '../log/guest-log.ts'
import type { Caller } from './caller.ts'
import type { KernelMemory } from './kernel-memory.ts'

/** What came back. */
export interface HttpResponse {
  /** 0 if the request was refused, or failed. */
  readonly status: number
  /** As JSON; undefined if there are none. */
  readonly headers: Uint8Array | undefined
  /** If the request was refused or failed, the reason. */
  readonly body: Uint8Array
}

/** How a guest reaches other servers. */
export interface GuestHttp {
  /** Whether it answers later: the guest has to be able to wait. */
  readonly isAsync: boolean

  /**
   * @param request - Extism's JSON: `{ "url", "method", "headers" }`. Good only until this returns.
   * @param body - Empty if there is none. Good only until this returns.
   * @param caller - Whose call it is part of; undefined while the guest starts.
   */
  send(request: Uint8Array, body: Uint8Array, caller?: Caller): HttpResponse | Promise<HttpResponse>
}

/** No host is allowed, so nothing is ever sent. */
export const refuseHttp: GuestHttp = {
  isAsync: false,
  send: () => httpFailure('HTTP requests are not allowed: no host is (--allow-host)'),
}

/** A request that was refused, or failed: the guest finds status 0 and the reason, and goes on. */
export function httpFailure(reason: string): HttpResponse {
  return { status: 0, headers: undefined, body: Buffer.from(reason) }
}

/** HTTP requests that one call may send. Counted here: from a thread each takes the main thread's time. */
const MAX_REQUESTS = 32

/** Extism's functions for HTTP, and the last response of a call, which the next call must not see. */
export class HttpCalls {
  readonly #http: GuestHttp
  readonly #memory: KernelMemory
  readonly #log: GuestLog
  #last: HttpResponse | undefined
  #requests = 0
  #caller: Caller | undefined

  constructor(http: GuestHttp, memory: KernelMemory, log: GuestLog) {
    this.#http = http
    this.#memory = memory
    this.#log = log
  }

  get isAsync(): boolean {
    return this.#http.isAsync
  }

  /** @returns the offset of the response's body; later, if that takes time. */
  request(request: bigint, body: bigint): bigint | Promise<bigint> {
    if (++this.#requests > MAX_REQUESTS)
      return this.#take(httpFailure(`a call may send ${MAX_REQUESTS} HTTP requests, no more`))
    const response = this.#http.send(this.#memory.read(request), this.#memory.read(body), this.#caller)
    return response instanceof Promise ? response.then((later) => this.#take(later)) : this.#take(response)
  }

  get status(): number {
    return this.#last?.status ?? 0
  }

  headers(): bigint {
    return this.#last?.headers ? this.#memory.store(this.#last.headers) : 0n
  }

  begin(caller: Caller): void {
    this.#caller = caller
  }

  /** Of a call. */
  end(): void {
    this.#caller = undefined
    this.#last = undefined
    this.#requests = 0
  }

  #take(response: HttpResponse): bigint {
    this.#last = response
    if (response.status === 0) this.#log.write('warn', utf8.decode(response.body))
    return this.#memory.store(response.body)
  }
}

const utf8 = new TextDecoder()
