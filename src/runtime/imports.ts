import { PluginImportError, WasiDisabledError } from '../errors.ts'
import type { Plugin } from '../plugin.ts'

/** The namespace of Extism's host functions. */
export const EXTISM_ENV = 'extism:host/env'

/** The namespace of WASI preview 1. */
export const WASI = 'wasi_snapshot_preview1'

/**
 * Extism's host functions.
 *
 * @see {@link https://github.com/extism/extism/blob/main/kernel/src/lib.rs}
 */
const EXTISM_FUNCTIONS = new Set([
  ...['alloc', 'free', 'length', 'length_unsafe', 'load_u8', 'load_u64', 'store_u8', 'store_u64'],
  ...['input_offset', 'input_length', 'input_load_u8', 'input_load_u64'],
  ...['output_set', 'error_set', 'error_get', 'config_get', 'var_get', 'var_set'],
  ...['http_request', 'http_status_code', 'http_headers'],
  ...['log_trace', 'log_debug', 'log_info', 'log_warn', 'log_error', 'get_log_level'],
])

/** @see {@link https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/docs.md} */
const WASI_FUNCTIONS = new Set([
  ...['args_get', 'args_sizes_get', 'environ_get', 'environ_sizes_get'],
  ...[
    'clock_res_get',
    'clock_time_get',
    'poll_oneoff',
    'sched_yield',
    'random_get',
    'proc_exit',
    'proc_raise',
  ],
  ...['fd_advise', 'fd_allocate', 'fd_close', 'fd_datasync', 'fd_fdstat_get', 'fd_fdstat_set_flags'],
  ...['fd_fdstat_set_rights', 'fd_filestat_get', 'fd_filestat_set_size', 'fd_filestat_set_times', 'fd_pread'],
  ...[
    'fd_prestat_get',
    'fd_prestat_dir_name',
    'fd_pwrite',
    'fd_read',
    'fd_readdir',
    'fd_renumber',
    'fd_seek',
  ],
  ...[
    'fd_sync',
    'fd_tell',
    'fd_write',
    'path_create_directory',
    'path_filestat_get',
    'path_filestat_set_times',
  ],
  ...['path_link', 'path_open', 'path_readlink', 'path_remove_directory', 'path_rename', 'path_symlink'],
  ...['path_unlink_file', 'sock_accept', 'sock_recv', 'sock_send', 'sock_shutdown'],
])

/**
 * Checks that somebody provides each of a plug-in's imports.
 *
 * @throws {@link PluginImportError} listing all that nobody provides.
 * @throws {@link WasiDisabledError} if only WASI is missing.
 */
export function checkImports(plugin: Plugin, { wasi }: { readonly wasi: object | undefined }): void {
  const imports = WebAssembly.Module.imports(plugin.module)
  const missing = imports.filter(
    (wanted) => wanted.kind !== 'function' || !isKnown(wanted.module, wanted.name),
  )
  if (missing.length > 0) {
    const lines = missing.map(({ module, name, kind }) => `  ${module} ${name} (${kind})`)
    throw new PluginImportError(plugin.name, lines.join('\n'))
  }
  const wanted = imports.filter(({ module }) => module === WASI).map(({ name }) => name)
  if (wanted.length > 0 && !wasi) throw new WasiDisabledError(plugin.name, wanted.join(', '))
}

function isKnown(module: string, name: string): boolean {
  return (
    (module === EXTISM_ENV && EXTISM_FUNCTIONS.has(name)) || (module === WASI && WASI_FUNCTIONS.has(name))
  )
}
