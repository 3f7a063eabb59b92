import { failure } from './failure.ts'

/* What the store cannot do, or a guest may not do with it. */

/** What names the store is no URL of a store, or the store cannot be opened. */
export const StoreInvalidError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_INVALID',
  'Store %s cannot be used: %s',
)

/** The store gave no answer in time, or cannot be reached. A write may have happened all the same. */
export const StoreUnavailableError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_UNAVAILABLE',
  'Store %s cannot be reached: %s',
  503,
)

/** The store has no room for the value; what was there stays. */
export const StoreFullError = failure<[store: string, reason: string]>(
  'WASM_SERVE_STORE_FULL',
  'Store %s is full: %s',
  503,
)

/** A key, namespace, time to live, limit or cursor that no store takes. */
export const KvArgumentInvalidError = failure<[problem: string]>(
  'WASM_SERVE_KV_ARGUMENT_INVALID',
  'A store cannot do this: %s',
)

/** The value is larger than a store takes. */
export const KvValueTooLargeError = failure<[bytes: number, limit: number]>(
  'WASM_SERVE_KV_VALUE_TOO_LARGE',
  'A value of %d bytes is larger than the %d bytes that a store takes',
)

/** The plug-in writes and may only read. */
export const KvReadOnlyError = failure<[namespace: string]>(
  'WASM_SERVE_KV_READ_ONLY',
  'The namespace %s may only be read (kv.access, --kv-access readwrite, allows more)',
)

/** What `wasm-serve store check` found, or `export` had to leave out; the message lists it. */
export const StoreDamagedError = failure<[store: string, faults: string]>(
  'WASM_SERVE_STORE_DAMAGED',
  'Store %s has what no store writes:\n%s',
)

/** There is something in the store that `wasm-serve store import` is to fill. */
export const StoreNotEmptyError = failure<[store: string]>(
  'WASM_SERVE_STORE_NOT_EMPTY',
  'Store %s is not empty, and was left as it is: --replace removes what is in it',
)

/** What `wasm-serve store import` reads is no export. Nothing was written. */
export const StoreExportInvalidError = failure<[name: string, line: number, problem: string]>(
  'WASM_SERVE_STORE_EXPORT_INVALID',
  'Cannot import %s, line %d: %s',
)
