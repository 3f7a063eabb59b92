import type { GuestLog } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
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

/** Why nothing is ever sent where no host is allowed. */
export const HTTP_NOT_ALLOWED = 'HTTP requests are not allowed: no host is (--allow-host)'

export const refuseHttp: GuestHttp = {
  isAsync: false,
  send: () => httpFailure(HTTP_NOT_ALLOWED),
}

/** A request that was refused, or failed: what becomes of it {@link checkResponse} says. */
export function httpFailure(reason: string): HttpResponse {
  return { status: 0, headers: undefined, body: Buffer.from(reason) }
}

/**
 * What a request that was refused or failed does. `status`: the guest finds status 0 with the reason as body, and goes
 * on. `trap`: the call ends, as after a refused request in Extism's own hosts, for guests that do not look at the status.
 */
export type HttpErrors = 'status' | 'trap'

/** Logs that a request was refused or failed. @throws Error with the reason, if it is to end the call. */
export function checkResponse({ status, body }: HttpResponse, log: GuestLog, errors: HttpErrors): void {
  if (status !== 0) return
  const reason = utf8.decode(body)
  // What ends the call is logged with it.
  if (errors === 'trap') throw new Error(`http_request: ${reason}`)
  log.write('warn', reason)
}

/** HTTP requests that one call may send. Counted here: from a thread each takes the main thread's time. */
const MAX_REQUESTS = 32

/** Extism's functions for HTTP, and the last response of a call, which the next call must not see. */
export class HttpCalls {
  readonly #http: GuestHttp
  readonly #memory: KernelMemory
  readonly #log: GuestLog
  readonly #errors: HttpErrors
  #last: HttpResponse | undefined
  #requests = 0
  #caller: Caller | undefined

  constructor(http: GuestHttp, memory: KernelMemory, log: GuestLog, errors: HttpErrors = 'status') {
    this.#http = http
    this.#memory = memory
    this.#log = log
    this.#errors = errors
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
    checkResponse(response, this.#log, this.#errors)
    this.#last = response
    return this.#memory.store(response.body)
  }
}

const utf8 = new TextDecoder()
