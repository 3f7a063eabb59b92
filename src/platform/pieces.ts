/** Bytes in several pieces, as they arrived: they are copied to where they are needed without being joined first. */
export class Pieces {
  readonly list: readonly Uint8Array[]
  /** Of all pieces, in bytes. */
  readonly length: number

  constructor(list: readonly Uint8Array[]) {
    this.list = list
    this.length = list.reduce((bytes, { length }) => bytes + length, 0)
  }
}

/** Bytes that are only measured and copied. */
export type CopiedBytes = Uint8Array | Pieces

/** @param at - An offset in the target, which must have room for all bytes. */
export function copyBytes(bytes: CopiedBytes, target: Uint8Array, at = 0): void {
  if (!(bytes instanceof Pieces)) {
    target.set(bytes, at)
    return
  }
  let next = at
  for (const piece of bytes.list) {
    target.set(piece, next)
    next += piece.length
  }
}

/** Bytes in one piece: a copy, if they were in several. */
export function joinBytes(bytes: CopiedBytes): Uint8Array {
  if (!(bytes instanceof Pieces)) return bytes
  const joined = Buffer.allocUnsafe(bytes.length)
  copyBytes(bytes, joined)
  return joined
}
