import { EXTISM_ENV, WASI } from '../plugin/host-imports.ts'
import { isWasiFunction } from './wasi/wasi.ts'

/** The only function of Extism that may have to wait. */
export const HTTP_REQUEST = 'http_request'

/** The part of the host that provides an import: the kernel, `kernel-host.ts` (`host`), or WASI. */
export type ImportProvider = 'kernel' | 'host' | 'wasi'

/**
 * Extism's host functions.
 *
 * @see {@link https://github.com/extism/extism/blob/main/kernel/src/lib.rs}
 */
const EXTISM_FUNCTIONS: ReadonlyMap<string, ImportProvider> = new Map([
  ...of('kernel', 'alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8', 'store_u64'),
  ...of('kernel', 'input_offset', 'input_length', 'input_load_u8', 'input_load_u64'),
  ...of('kernel', 'output_set', 'error_set', 'error_get'),
  ...of('host', 'config_get', 'var_get', 'var_set', 'http_request', 'http_status_code', 'http_headers'),
  ...of('host', 'log_trace', 'log_debug', 'log_info', 'log_warn', 'log_error', 'get_log_level'),
])

function of(part: ImportProvider, ...names: readonly string[]): (readonly [string, ImportProvider])[] {
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
export function importProviderOf(namespace: string, name: string): ImportProvider | undefined {
  if (namespace === EXTISM_ENV) return EXTISM_FUNCTIONS.get(name)
  return namespace === WASI && isWasiFunction(name) ? 'wasi' : undefined
}
