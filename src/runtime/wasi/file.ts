import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  futimesSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { Descriptor, FILETYPE, RIGHTS_FILE_READ, RIGHTS_FILE_WRITE } from './descriptor.ts'
import { closeUnless, type Directory } from './directory.ts'
import { WasiError } from './errno.ts'

/** Chunk size. Between two chunks, `terminate()` can stop the thread. */
const COPY_CHUNK_BYTES = 1_048_576

/** The bit of `fdflags` for writing at the end. */
export const APPEND = 1

/** The bit of `fdflags` for non-blocking access. It has no effect: no operation here blocks. */
export const NONBLOCK = 4

/** How a file is opened. */
export interface FileMode {
  readonly read: boolean
  readonly write: boolean
  readonly append: boolean
  /** Create the file if it does not exist; `exclusive`: fail if it exists. */
  readonly create: boolean
  readonly exclusive: boolean
  /** Truncate the file. */
  readonly truncate: boolean
  /** The folder is read-only, and so are the attributes of the file. */
  readonly frozen: boolean
}

/**
 * Opens a regular file of a directory. The caller has checked that it is one or does not exist. If it was replaced since,
 * a link is `ELOOP`, and a FIFO does not block.
 */
export function openRegularFile(directory: Directory, name: string, mode: FileMode): File {
  const { O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
  const fd = openSync(directory.at(name), accessFlags(mode) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0o666)
  return closeUnless(fd, () => {
    if (!fstatSync(fd).isFile()) throw new WasiError('EACCES')
    directory.checkOpened(name, fd)
    if (mode.truncate) ftruncateSync(fd)
    return new File(fd, mode)
  })
}

/** Flags without `O_TRUNC`: the opened file is checked before it is truncated. */
function accessFlags({ read, write, append, create, exclusive, truncate }: FileMode): number {
  const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY } = constants
  const writing = write || truncate
  const access = writing ? (read ? O_RDWR : O_WRONLY) : O_RDONLY
  return access | (append ? O_APPEND : 0) | (create ? O_CREAT : 0) | (create && exclusive ? O_EXCL : 0)
}

/** An open regular file. The position is kept here, so that the host descriptor has no state that `fd_pread` could disturb. */
class File extends Descriptor {
  override readonly filetype = FILETYPE.regularFile
  override readonly flags: number
  override readonly rights: bigint
  readonly #fd: number
  readonly #mode: FileMode
  #position = 0

  constructor(fd: number, mode: FileMode) {
    super()
    this.#fd = fd
    this.#mode = mode
    this.flags = mode.append ? APPEND : 0
    this.rights = (mode.read ? RIGHTS_FILE_READ : 0n) | (mode.write ? RIGHTS_FILE_WRITE : 0n)
  }

  override stat(): BigIntStats {
    return fstatSync(this.#fd, { bigint: true })
  }

  override read(bytes: Buffer, start: number, end: number, position?: number): number {
    if (!this.#mode.read) throw new WasiError('EBADF')
    const from = position ?? this.#position
    const moved = inChunks(start, end, (at, length, done) =>
      readSync(this.#fd, bytes, at, length, from + done),
    )
    if (position === undefined) this.#position += moved
    return moved
  }

  override write(bytes: Buffer, start: number, end: number, position?: number): number {
    if (!this.#mode.write) throw new WasiError('EBADF')
    const { append } = this.#mode
    const from = position ?? this.#position
    const moved = inChunks(start, end, (at, length, done) =>
      writeSync(this.#fd, bytes, at, length, append ? null : from + done),
    )
    if (position === undefined) this.#position = append ? fstatSync(this.#fd).size : from + moved
    return moved
  }

  override seek(offset: bigint, whence: number): number {
    const bases = [() => 0, () => this.#position, () => fstatSync(this.#fd).size]
    const base = bases[whence]?.()
    if (base === undefined) throw new WasiError('EINVAL')
    const position = Number(offset) + base
    if (position < 0 || !Number.isSafeInteger(position)) throw new WasiError('EINVAL')
    this.#position = position
    return position
  }

  override advise(): void {
    // Advice may be ignored.
  }

  override sync(): void {
    fsyncSync(this.#fd)
  }

  override truncate(size: number): void {
    if (!this.#mode.write) throw new WasiError('EINVAL')
    ftruncateSync(this.#fd, size)
  }

  override setTimes(atime: number, mtime: number): void {
    if (this.#mode.frozen) throw new WasiError('EROFS')
    futimesSync(this.#fd, atime, mtime)
  }

  override close(): void {
    closeSync(this.#fd)
  }
}

function inChunks(
  start: number,
  end: number,
  move: (at: number, length: number, done: number) => number,
): number {
  let at = start
  while (at < end) {
    const length = Math.min(COPY_CHUNK_BYTES, end - at)
    const moved = move(at, length, at - start)
    at += moved
    if (moved < length) break
  }
  return at - start
}
