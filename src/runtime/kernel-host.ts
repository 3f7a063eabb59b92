import {
  type GuestHttp,
  HTTP_NOT_ALLOWED,
  type HttpResponse,
  httpFailure,
} from '../guest/outbound/guest-http.ts'
import type { Vars } from '../guest/vars.ts'
import type { GuestLog, GuestLogLevel } from '../observe/log/guest-log.ts'
import type { Caller } from '../observe/observe.ts'
import type { KernelMemory } from './kernel-memory.ts'

/** The state that the host functions of an instance use. */
export interface KernelHost {
  readonly memory: KernelMemory
  readonly config: Readonly<Record<string, string>>
  readonly vars: Vars
  readonly log: GuestLog
  readonly http: HttpCalls
}

/**
 * Extism's functions that need the host; the kernel implements all others. Their exceptions end the call like a trap. As
 * in Extism, an offset without a block is an error, and 0 means no bytes, both as argument and as result.
 */
export function kernelHostFunctions(host: KernelHost): Record<string, WebAssembly.ExportValue> {
  const { memory, config, vars, http } = host
  return {
    config_get(name: bigint): bigint {
      const key = decodeName(memory.read(name))
      // An own property: every object has a `__proto__`.
      return Object.hasOwn(config, key) ? memory.store(encoder.encode(config[key])) : 0n
    },
    var_get(name: bigint): bigint {
      const value = vars.get(decodeName(memory.read(name)))
      return value ? memory.store(value) : 0n
    },
    var_set(name: bigint, value: bigint): void {
      const key = decodeName(memory.read(name))
      if (value === 0n) vars.delete(key)
      else vars.set(key, memory.read(value))
    },
    http_request: (request: bigint, body: bigint) => http.request(request, body),
    http_status_code: (): number => http.status,
    http_headers: (): bigint => http.headers(),
    get_log_level: (): number => TRACE,
    log_trace: logAt('trace', host),
    log_debug: logAt('debug', host),
    log_info: logAt('info', host),
    log_warn: logAt('warn', host),
    log_error: logAt('error', host),
  }
}

/** The level reported to guests. The logger filters lines, and its level may change during the guest's life. */
const TRACE = 0

/** More than a log line may have. It avoids decoding a whole logged block, which may have 64 MiB. */
const MAX_LOGGED_BYTES = 65_536

function logAt(level: GuestLogLevel, { memory, log }: KernelHost): (message: bigint) => void {
  return (message) => log.write(level, lossy.decode(memory.read(message).subarray(0, MAX_LOGGED_BYTES)))
}

/** Strict, so that different names stay different: no replacement characters, and a byte order mark is kept. */
function decodeName(bytes: Uint8Array): string {
  return exact.decode(bytes)
}

const exact = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const lossy = new TextDecoder()
const encoder = new TextEncoder()

export const refuseHttp: GuestHttp = {
  isAsync: false,
  send: () => httpFailure(HTTP_NOT_ALLOWED),
}

/**
 * The effect of a refused or failed request. `trap`: the call ends, as in Extism's own hosts. `status`: the guest gets
 * status 0 with the reason as body, and continues.
 */
export type HttpErrors = 'status' | 'trap'

/** Logs that a request was refused or failed. @throws Error with the reason, if it ends the call. */
export function checkResponse(
  { status, body }: HttpResponse,
  log: GuestLog,
  errors: HttpErrors,
  isStart = false,
): void {
  if (status !== 0) return
  const reason = utf8.decode(body)
  // The error that ends a call is logged with the call. That of a start is in answers to clients.
  if (errors === 'status' || isStart) log.write('warn', reason)
  if (errors === 'trap') throw new Error(`http_request: ${isStart ? 'the log has the reason' : reason}`)
}

/** Maximum number of HTTP requests per call. Counted here, because each request from a thread takes main-thread time. */
const MAX_REQUESTS = 32

/** Extism's HTTP functions, and the last response of a call, which the next call must not see. */
export class HttpCalls {
  readonly #http: GuestHttp
  readonly #memory: KernelMemory
  readonly #log: GuestLog
  readonly #errors: HttpErrors
  #last: HttpResponse | undefined
  #requests = 0
  #caller: Caller | undefined

  constructor(http: GuestHttp, memory: KernelMemory, log: GuestLog, errors: HttpErrors = 'trap') {
    this.#http = http
    this.#memory = memory
    this.#log = log
    this.#errors = errors
  }

  get isAsync(): boolean {
    return this.#http.isAsync
  }

  /** @returns the offset of the response's body, possibly as a promise. */
  request(request: bigint, body: bigint): bigint | Promise<bigint> {
    if (++this.#requests > MAX_REQUESTS)
      return this.#take(httpFailure(`a call may send at most ${MAX_REQUESTS} HTTP requests`))
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

  /** Ends a call. */
  end(): void {
    this.#caller = undefined
    this.#last = undefined
    this.#requests = 0
  }

  #take(response: HttpResponse): bigint {
    checkResponse(response, this.#log, this.#errors, this.#caller === undefined)
    this.#last = response
    return this.#memory.store(response.body)
  }
}

const utf8 = new TextDecoder()
