import { readFileSync } from 'node:fs'

/** The bytes of `kernel.wasm`. A module of its own: where no file may be read the build puts the bytes in its place. */
export const KERNEL_WASM: Uint8Array<ArrayBuffer> = readFileSync(new URL('./kernel.wasm', import.meta.url))
