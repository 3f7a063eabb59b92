import { setFlagsFromString } from 'node:v8'

/**
 * Sets the most pages that any WebAssembly memory of this process may have: a second lock behind the limit that is
 * written into each module. It is never lowered: who has more already may go on.
 *
 * @param pages - Of 64 KiB.
 */
export function raiseMemoryCeiling(pages: number): void {
  if (pages <= ceiling) return
  ceiling = pages
  setFlagsFromString(`--wasm-max-mem-pages=${Math.min(pages, 65_536)}`)
}

let ceiling = 0
