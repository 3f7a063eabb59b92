/*
 * Large outputs are copied into buffers that are used again. A new buffer of 64 KiB costs more in garbage collection
 * than the copy.
 */

/** The size below which buffers come from Node's own pool. */
const MIN_BYTES = 4_096

/** The size above which buffers are rare, and would keep much memory. */
const MAX_BYTES = 1_048_576

/** Maximum bytes of all free buffers. */
const MAX_FREE_BYTES = 8_388_608

/** Free buffers by size: powers of two. */
const free = new Map<number, ArrayBuffer[]>()
let freeBytes = 0

/** Buffers of the pool, free or not. */
const pooled = new WeakSet<ArrayBufferLike>()

/** A buffer with any content. It may be given back to the pool. */
export function takeBuffer(length: number): Buffer<ArrayBuffer> {
  if (length <= MIN_BYTES || length > MAX_BYTES) return Buffer.allocUnsafe(length)
  const size = 2 ** Math.ceil(Math.log2(length))
  const known = free.get(size)?.pop()
  if (known) freeBytes -= size
  const bytes = known ?? new ArrayBuffer(size)
  if (!known) pooled.add(bytes)
  return Buffer.from(bytes, 0, length)
}

/** Gives a buffer back that nothing reads any more. @returns false if it is not one of the pool. */
export function giveBack({ buffer, length }: Uint8Array): boolean {
  if (length <= MIN_BYTES || !(buffer instanceof ArrayBuffer) || !pooled.has(buffer)) return false
  const size = buffer.byteLength
  if (freeBytes + size > MAX_FREE_BYTES) return true
  freeBytes += size
  const others = free.get(size)
  if (others) others.push(buffer)
  else free.set(size, [buffer])
  return true
}
