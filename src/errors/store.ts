import { failure } from '../failure.ts'

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
