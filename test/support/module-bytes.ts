import { concat, leb } from '../../src/module/bytes.ts'
import { type CappedModule, capMemory } from '../../src/module/memory-cap.ts'
import { readModule } from '../../src/module/module.ts'

/** Bytes, or a list of them. */
type Part = number | readonly number[] | Uint8Array

const HEADER = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]

/** Puts parts together. */
export function bytesOf(...parts: readonly Part[]): Uint8Array {
  return concat(parts.map((part) => (typeof part === 'number' ? Uint8Array.of(part) : Uint8Array.from(part))))
}

/** Several of the same. */
export function repeated(count: number, item: (place: number) => Part): Uint8Array {
  return bytesOf(...Array.from({ length: count }, (_, place) => item(place)))
}

/** A list, with its length before it. */
export function list(...items: readonly Part[]): Uint8Array {
  return bytesOf(leb(items.length), ...items)
}

export function section(id: number, content: Uint8Array): Uint8Array {
  return bytesOf(id, leb(content.length), content)
}

/** A module of these sections. */
export function moduleOf(...sections: readonly Uint8Array[]): Uint8Array {
  return bytesOf(HEADER, ...sections)
}

export interface Body {
  /** Groups: how many, of which type. */
  readonly locals?: readonly (readonly [count: number, type: number])[]
  /** Without the last `end`. */
  readonly code: Part
}

/** A module of functions of the type `(i32) -> ()`, the first of them exported as `f`. */
export function functions(...bodies: readonly Body[]): Uint8Array {
  return moduleOf(
    section(1, list([0x60, 1, 0x7f, 0])),
    section(3, list(...bodies.map(() => 0))),
    section(7, list([1, 0x66, 0, 0])),
    codeSection(...bodies),
  )
}

export function codeSection(...bodies: readonly Body[]): Uint8Array {
  return section(
    10,
    list(
      ...bodies.map(({ locals = [], code }) => {
        const groups = list(...locals.map(([count, type]) => [...leb(count), type]))
        const body = bytesOf(groups, code, 0x0b)
        return bytesOf(leb(body.length), body)
      }),
    ),
  )
}

/** A module that was read without limits, and capped. @param maxPages - Of 64 KiB. */
export function capped(bytes: Uint8Array, maxPages: number): CappedModule {
  return capMemory(readModule(bytes, { limits: 'none', allowGc: true }, 'test'), maxPages)
}

/** The code of the error that this throws, or `accepted`. */
export function codeOf(run: () => unknown): string {
  try {
    run()
    return 'accepted'
  } catch (error) {
    return String((error as { code?: unknown }).code)
  }
}
