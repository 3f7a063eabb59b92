/**
 * The return code of a guest function. Only an i32 is one: as in Extism's JavaScript SDK, a result of another type means
 * nothing, and neither do several.
 *
 * @param run - The function, as its module exports it.
 */
export function returnCode(returned: unknown, run: unknown): number {
  return typeof returned === 'number' && returned !== 0 && returnsI32(run) ? returned : 0
}

/** JavaScript cannot tell an i32 from a float, but an import of another type does not link. */
function returnsI32(run: unknown): boolean {
  importer ??= new WebAssembly.Module(IMPORTER)
  try {
    new WebAssembly.Instance(importer, { '': { '': run as WebAssembly.ImportValue } })
    return true
  } catch (error) {
    if (error instanceof WebAssembly.LinkError) return false
    throw error
  }
}

let importer: WebAssembly.Module | undefined

/** `(module (import "" "" (func (result i32))))` */
const IMPORTER = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...[1, 5, 1, 0x60, 0, 1, 0x7f],
  ...[2, 5, 1, 0, 0, 0, 0],
)
