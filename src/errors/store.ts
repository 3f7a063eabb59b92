import { failure } from './failure.ts'

/* Failures of key-value stores and caches. */

export const StoreInvalidError = failure({
  code: 'WASM_SERVE_STORE_INVALID',
  site: 'command',
  message: 'Store %s cannot be used: %s',
  cause: 'The URL, the folder or the file of the store cannot be used.',
  remedy: 'Use `memory:`, `lmdb:FOLDER` or `redis://HOST`. Move a damaged file away, or restore it.',
})

export const StoreUnavailableError = failure({
  code: 'WASM_SERVE_STORE_UNAVAILABLE',
  status: 503,
  site: 'guest',
  message: 'Store %s cannot be reached: %s',
  cause: 'The store cannot be reached or timed out. A write may have happened. `wasm-serve:kv` returns -7.',
  remedy: 'Check the store and the network, or raise `--store-timeout-ms`.',
})

export const StoreFullError = failure({
  code: 'WASM_SERVE_STORE_FULL',
  status: 503,
  site: 'guest',
  message: 'Store %s is full: %s',
  cause: 'The store or its disk is full. The old value stays. `wasm-serve:kv` returns -6.',
  remedy: 'Delete keys, free disk space, or raise `--store-max`.',
})

export const KvArgumentInvalidError = failure({
  code: 'WASM_SERVE_KV_ARGUMENT_INVALID',
  site: 'guest',
  message: 'Invalid store request: %s',
  cause: 'A key, time to live, limit or cursor is not valid. `wasm-serve:kv` returns -4.',
  remedy: 'Use keys of 1 to 512 bytes of UTF-8, and numbers in range.',
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
  cause: 'The guest wrote to a read-only namespace. `wasm-serve:kv` returns -3.',
  remedy: 'Set `kv.access` of the route to `readwrite`, or do not write.',
})

export const StoreDamagedError = failure({
  code: 'WASM_SERVE_STORE_DAMAGED',
  site: 'command',
  message: 'Store %s has damaged entries:\n%s',
  cause: '`wasm-serve store` found damaged entries.',
  remedy: 'Export the readable entries, and import them into a new store.',
})

export const CacheDamagedError = failure({
  code: 'WASM_SERVE_CACHE_DAMAGED',
  site: 'command',
  message: 'The cache %s had damaged files, which are removed:\n%s',
  cause: '`wasm-serve cache verify` found and removed damaged files.',
  remedy: 'Nothing to do: they are fetched again. If it recurs, check the disk.',
})

export const CacheUntrustedError = failure({
  code: 'WASM_SERVE_CACHE_UNTRUSTED',
  site: 'command',
  message: 'Nothing is removed from the cache: %s',
  cause: '`wasm-serve cache` removes nothing from a folder that other users can change.',
  remedy: 'Correct its owner or mode, or use another `--cache-folder`.',
})

export const NamespaceNotRenamedError = failure({
  code: 'WASM_SERVE_NAMESPACE_NOT_RENAMED',
  site: 'command',
  message: 'Namespace "%s" of store %s was not renamed: %s',
  cause: '`wasm-serve store rename`: the old namespace has no keys, or the new one has some.',
  remedy: 'List them with `wasm-serve store check`. `--replace` overwrites keys of the new namespace.',
})

export const NamespaceSharedError = failure({
  code: 'WASM_SERVE_NAMESPACE_SHARED',
  site: 'command',
  isMistake: true,
  message:
    'Plug-in "%s" (%s) and plug-in "%s" (%s) would share the namespace "%s" of the store: set kv.namespace to it on both to share it, else to another one',
  cause: 'The `kv.namespace` of a plug-in is the [name](../serve/plug-ins.md#names) of another one.',
  remedy: 'To share keys, set the same `kv.namespace` on both. Otherwise change it.',
})

export const StoreNotEmptyError = failure({
  code: 'WASM_SERVE_STORE_NOT_EMPTY',
  site: 'command',
  message: 'Store %s is not empty and was left unchanged: --replace removes its content first',
  cause: '`wasm-serve store import`: the store has entries.',
  remedy: 'Use `--replace` to delete them, or use another store.',
})

export const StoreExportInvalidError = failure({
  code: 'WASM_SERVE_STORE_EXPORT_INVALID',
  site: 'command',
  isMistake: true,
  message: 'Cannot import %s, line %d: %s',
  cause: '`wasm-serve store import`: the input is not a complete export. Nothing was written.',
  remedy: 'Use a complete file of `wasm-serve store export`.',
})
