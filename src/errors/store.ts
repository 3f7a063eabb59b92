import { failure } from './failure.ts'

/* Failures of key-value stores and caches. */

export const StoreInvalidError = failure({
  code: 'WASM_SERVE_STORE_INVALID',
  site: 'command',
  message: 'Store %s cannot be used: %s',
  cause:
    'The URL of the store is wrong, its folder cannot be used, or the file in it is damaged or belongs to another program.',
  remedy: 'Use `memory:`, `lmdb:FOLDER` or `redis://HOST`. A damaged file is moved away or restored by you.',
})

export const StoreUnavailableError = failure({
  code: 'WASM_SERVE_STORE_UNAVAILABLE',
  status: 503,
  site: 'guest',
  message: 'Store %s cannot be reached: %s',
  cause:
    'The store cannot be reached, or did not answer in time. `wasm-serve:kv` returns -7. A write may have happened.',
  remedy:
    'Check the server of the store, and the network to it. `--store-timeout-ms` is how long an operation may take.',
})

export const StoreFullError = failure({
  code: 'WASM_SERVE_STORE_FULL',
  status: 503,
  site: 'guest',
  message: 'Store %s is full: %s',
  cause:
    'The store is full. The old value stays. At the start: the disk has no room for a new store. `wasm-serve:kv` returns -6.',
  remedy: 'Delete keys, free space on the disk, or raise `--store-max`.',
})

export const KvArgumentInvalidError = failure({
  code: 'WASM_SERVE_KV_ARGUMENT_INVALID',
  site: 'guest',
  message: 'Invalid store request: %s',
  cause:
    'A key is empty, too long or not UTF-8; or a time to live, limit or cursor is out of range. `wasm-serve:kv` returns -4.',
  remedy: 'Use keys of 1 to 512 bytes of UTF-8, and the ranges of the functions of `wasm-serve:kv`.',
})

export const KvValueTooLargeError = failure({
  code: 'WASM_SERVE_KV_VALUE_TOO_LARGE',
  site: 'guest',
  message: "A value of %d bytes exceeds the store's limit of %d bytes",
  cause: 'The value is larger than 1 MiB. `wasm-serve:kv` returns -5.',
  remedy: 'Split the value, or store less.',
})

export const KvReadOnlyError = failure({
  code: 'WASM_SERVE_KV_READ_ONLY',
  site: 'guest',
  message: 'The namespace %s is read-only: set --kv-access readwrite (kv.access) to allow writes',
  cause: 'The guest wrote to a namespace that it may only read. `wasm-serve:kv` returns -3.',
  remedy: 'Set `kv.access` of the route to `readwrite`, or do not write.',
})

export const StoreDamagedError = failure({
  code: 'WASM_SERVE_STORE_DAMAGED',
  site: 'command',
  message: 'Store %s has damaged entries:\n%s',
  cause: '`wasm-serve store` found entries that no store writes. All are listed.',
  remedy: 'Export the readable entries, and import them into a new store.',
})

export const CacheDamagedError = failure({
  code: 'WASM_SERVE_CACHE_DAMAGED',
  site: 'command',
  message: 'The cache %s had damaged files, which are removed:\n%s',
  cause: '`wasm-serve cache verify` found damaged files, and removed them. All are listed.',
  remedy: 'Nothing: they are fetched again. If it happens often, check the disk.',
})

export const CacheUntrustedError = failure({
  code: 'WASM_SERVE_CACHE_UNTRUSTED',
  site: 'command',
  message: 'Nothing is removed from the cache: %s',
  cause:
    '`wasm-serve cache` removes nothing from a folder that other users can change: a link could lead it to other files.',
  remedy:
    'Correct the owner or the mode of the folder that the message names, or use another `--cache-folder`.',
})

export const NamespaceNotRenamedError = failure({
  code: 'WASM_SERVE_NAMESPACE_NOT_RENAMED',
  site: 'command',
  message: 'Namespace "%s" of store %s was not renamed: %s',
  cause:
    '`wasm-serve store rename`: the old namespace has no keys, or the new one has some. Nothing was changed.',
  remedy:
    '`wasm-serve store check` lists the namespaces and counts their keys. `--replace` also moves to a namespace with keys: where both have a key, that of the old one wins.',
})

export const NamespaceSharedError = failure({
  code: 'WASM_SERVE_NAMESPACE_SHARED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in "%s" (%s) and plug-in "%s" (%s) would share the namespace "%s" of the store: set kv.namespace to it on both to share it, else to another one',
  cause:
    'A plug-in would read what another one has stored: its `kv.namespace` is the [name](../guide/plug-ins.md#names) of the other, and not both set it.',
  remedy: 'To share the keys, set `kv.namespace` to the same text on both. Else set it to another one.',
})

export const StoreNotEmptyError = failure({
  code: 'WASM_SERVE_STORE_NOT_EMPTY',
  site: 'command',
  message: 'Store %s is not empty and was left unchanged: --replace removes its content first',
  cause: '`wasm-serve store import`: the store has entries, and `--replace` is not set.',
  remedy: 'Use `--replace` to delete the entries first, or use another store.',
})

export const StoreExportInvalidError = failure({
  code: 'WASM_SERVE_STORE_EXPORT_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Cannot import %s, line %d: %s',
  cause:
    '`wasm-serve store import`: the input is not an export, or is incomplete; the message names the line, and nothing was written.',
  remedy: 'Use a complete file of `wasm-serve store export`.',
})
