import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as zlib from 'node:zlib'

/** How the bytes of a layer are packed. */
type Packing = 'gzip' | 'zstd'

/** A layer cannot be unpacked. The message is a reason without the name of the artifact. */
export class UnpackError extends Error {}

/** Counts what is unpacked, for all layers of an artifact together. */
export class UnpackBudget {
  readonly #limit: number
  #left: number

  /** @param limit - In bytes. */
  constructor(limit: number) {
    this.#limit = limit
    this.#left = limit
  }

  /** @throws {@link UnpackError} if more than the limit would be taken in all. */
  take(bytes: number): void {
    if (bytes > this.#left)
      throw new UnpackError(`it unpacks to more than ${this.#limit} bytes (--download-limit)`)
    this.#left -= bytes
  }

  /** A budget with what is left of this one, for a look at the start of a layer. */
  copy(): UnpackBudget {
    return new UnpackBudget(this.#left)
  }
}

/** The packing of bytes, by their start; undefined: none that is known. */
function packingOf(bytes: Uint8Array): Packing | undefined {
  if (startsWith(bytes, [0x1f, 0x8b])) return 'gzip'
  return startsWith(bytes, [0x28, 0xb5, 0x2f, 0xfd]) ? 'zstd' : undefined
}

/**
 * Unpacks gzip and zstd; other bytes are passed on as they are. At most one piece more than the budget exists at a time, and nothing
 * is unpacked that the caller does not read.
 *
 * @throws {@link UnpackError} while it is read, if the bytes are damaged or the budget is exhausted.
 */
export async function* unpack(bytes: Uint8Array, budget: UnpackBudget): AsyncGenerator<Uint8Array> {
  const packing = packingOf(bytes)
  if (packing === undefined) {
    budget.take(bytes.length)
    for (const slice of slices(bytes)) {
      yield slice
      await nextTurn() // so that other work goes on meanwhile
    }
    return
  }
  const unpacker = packing === 'gzip' ? zlib.createGunzip() : createZstdDecompress()
  const source = Readable.from(slices(bytes), { objectMode: false })
  source.pipe(unpacker)
  try {
    for await (const piece of unpacker) {
      budget.take(piece.length)
      yield piece
    }
  } catch (error) {
    if (error instanceof UnpackError) throw error
    throw new UnpackError(`its ${packing} data is damaged: ${(error as Error).message}`, { cause: error })
  } finally {
    source.destroy()
    unpacker.destroy()
  }
}

/** All of it in one piece. Bytes that are not packed take nothing of the budget. @throws {@link UnpackError} */
export async function unpackWhole(bytes: Uint8Array, budget: UnpackBudget): Promise<Uint8Array> {
  if (packingOf(bytes) === undefined) return bytes
  const pieces: Uint8Array[] = []
  for await (const piece of unpack(bytes, budget)) pieces.push(piece)
  return Buffer.concat(pieces)
}

const SLICE_BYTES = 524_288

/** zlib copies each slice when it takes it. */
function* slices(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) yield bytes.subarray(at, at + SLICE_BYTES)
}

/** @throws {@link UnpackError} if this Node.js has no zstd. */
function createZstdDecompress(): zlib.Gunzip {
  const { createZstdDecompress: create } = zlib as NewerZlib
  if (!create) throw new UnpackError('it is packed with zstd, which needs Node.js 22.15 or later')
  return create()
}

/** What newer versions add to `node:zlib`. */
interface NewerZlib {
  readonly createZstdDecompress?: () => zlib.Gunzip
}

function startsWith(bytes: Uint8Array, start: readonly number[]): boolean {
  return start.every((byte, index) => bytes[index] === byte)
}
