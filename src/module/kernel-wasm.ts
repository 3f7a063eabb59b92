import { readFileSync } from 'node:fs'

/** The bytes of `kernel.wasm`. In a separate module, which the build replaces where no file can be read. */
export const KERNEL_WASM: Uint8Array<ArrayBuffer> = readFileSync(new URL('./kernel.wasm', import.meta.url))
