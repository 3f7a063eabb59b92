import type { Vars } from '../guest/vars.ts'
import type { GuestLog, GuestLogLevel } from '../observe/log/guest-log.ts'
import type { HttpCalls } from './kernel-http.ts'
import type { KernelMemory } from './kernel-memory.ts'

/** What the host functions of an instance reach. */
export interface Host {
  readonly memory: KernelMemory
  readonly config: Readonly<Record<string, string>>
  readonly vars: Vars
  readonly log: GuestLog
  readonly http: HttpCalls
}

/**
 * Extism's functions that need the host; all others are the kernel's own. What they throw ends the call as a trap
 * does. As in Extism, an offset where no block begins is an error, 0 stands for no bytes, and so does the answer 0.
 */
export function hostFunctions(host: Host): Record<string, WebAssembly.ExportValue> {
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

/** The guest logs all it has: what is kept is the logger's choice, which may change while the guest lives. */
const TRACE = 0

/** More than a log line may have: a guest can log a block of 64 MiB, and to decode that takes time. */
const MAX_LOGGED_BYTES = 65_536

function logAt(level: GuestLogLevel, { memory, log }: Host): (message: bigint) => void {
  return (message) => log.write(level, lossy.decode(memory.read(message).subarray(0, MAX_LOGGED_BYTES)))
}

/** Exact, so that no two names are the same: not lossy, and a byte order mark is part of it. */
function decodeName(bytes: Uint8Array): string {
  return exact.decode(bytes)
}

const exact = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const lossy = new TextDecoder()
const encoder = new TextEncoder()
