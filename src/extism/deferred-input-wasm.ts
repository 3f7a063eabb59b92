import { readFileSync } from 'node:fs'

/** The bytes of `deferred-input.wasm`. In a separate module, which the build replaces where no file can be read. */
export const DEFERRED_INPUT_WASM: Uint8Array<ArrayBuffer> = readFileSync(
  new URL('./deferred-input.wasm', import.meta.url),
)
