import { EXTISM_ENV, WASI } from '../plugin/host-imports.ts'
import { isWasiFunction } from './wasi/wasi.ts'

/** The one function of Extism's that takes time. */
export const HTTP_REQUEST = 'http_request'

/** Who of the host meets an import: the kernel, what `kernel-host.ts` adds to it, or WASI. */
export type HostPart = 'kernel' | 'host' | 'wasi'

/**
 * Extism's host functions.
 *
 * @see {@link https://github.com/extism/extism/blob/main/kernel/src/lib.rs}
 */
const EXTISM_FUNCTIONS: ReadonlyMap<string, HostPart> = new Map([
  ...of('kernel', 'alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8', 'store_u64'),
  ...of('kernel', 'input_offset', 'input_length', 'input_load_u8', 'input_load_u64'),
  ...of('kernel', 'output_set', 'error_set', 'error_get'),
  ...of('host', 'config_get', 'var_get', 'var_set', 'http_request', 'http_status_code', 'http_headers'),
  ...of('host', 'log_trace', 'log_debug', 'log_info', 'log_warn', 'log_error', 'get_log_level'),
])

function of(part: HostPart, ...names: readonly string[]): (readonly [string, HostPart])[] {
  return names.map((name) => [name, part])
}

/**
 * Whether an import is one of Extism's functions as PDKs before 1.0 named them. Host functions of the user may have such
 * names: ask only for an import that nothing provides.
 */
export function isOfOldPdk(namespace: string, name: string): boolean {
  return namespace === 'env' && name.startsWith('extism_')
}

/** @returns undefined if the host has no such function. */
export function hostPartOf(namespace: string, name: string): HostPart | undefined {
  if (namespace === EXTISM_ENV) return EXTISM_FUNCTIONS.get(name)
  return namespace === WASI && isWasiFunction(name) ? 'wasi' : undefined
}
