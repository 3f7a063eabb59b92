import { setFlagsFromString } from 'node:v8'

/**
 * Sets the most pages that any WebAssembly memory of this process may have: a second lock behind the limit that is
 * written into each module. To be called once, before anything is instantiated.
 *
 * @param pages - Of 64 KiB.
 */
export function setMemoryCeiling(pages: number): void {
  setFlagsFromString(`--wasm-max-mem-pages=${Math.min(pages, 65_536)}`)
}
