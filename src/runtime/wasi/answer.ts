import { errnoOf } from './errno.ts'

/** A parameter as WebAssembly passes it: an `i32` is a number (with a sign), an `i64` a bigint. */
type Param = number | bigint

/** Makes a WASI function of one that returns nothing and throws its errors: it answers the guest with an errno. */
export function answer<Params extends Param[]>(
  run: (...params: Params) => void,
): (...params: Params) => number {
  return (...params) => {
    try {
      run(...params)
      return 0
    } catch (error) {
      return errnoOf(error)
    }
  }
}
