import type { BigIntStats, Stats } from 'node:fs'
import { WasiError } from './errno.ts'
import type { GuestMemory } from './guest-memory.ts'

/** Maximum open descriptors of a guest. Each may use one of the host's, which all guests share. */
export const MAX_DESCRIPTORS = 128

/** The descriptors of a guest, by number. */
export class DescriptorTable {
  readonly #open = new Map<number, Descriptor>()

  has(fd: number): boolean {
    return this.#open.has(fd >>> 0)
  }

  get(fd: number): Descriptor {
    const descriptor = this.#open.get(fd >>> 0)
    if (!descriptor) throw new WasiError('EBADF')
    return descriptor
  }

  /** Checks the limit of {@link add} before the host opens anything. */
  checkRoom(): void {
    if (this.#open.size >= MAX_DESCRIPTORS) throw new WasiError('EMFILE')
  }

  /** @returns the lowest free number. */
  add(descriptor: Descriptor): number {
    this.checkRoom()
    let fd = 0
    while (this.#open.has(fd)) fd++
    this.#open.set(fd, descriptor)
    return fd
  }

  close(fd: number): void {
    const descriptor = this.get(fd)
    this.#open.delete(fd >>> 0)
    descriptor.close()
  }

  /** Gives `from` the number of `to`, which is closed. Both must be open. */
  renumber(from: number, to: number): void {
    const moved = this.get(from)
    const replaced = this.get(to)
    if (moved === replaced) return
    this.#open.delete(from >>> 0)
    this.#open.set(to >>> 0, moved)
    replaced.close()
  }

  closeAll(): void {
    for (const fd of [...this.#open.keys()]) this.close(fd)
  }
}

/** File types, with the numbers of WASI. */
export const FILETYPE = {
  unknown: 0,
  blockDevice: 1,
  characterDevice: 2,
  directory: 3,
  regularFile: 4,
  symbolicLink: 7,
} as const

/** The operations of an open descriptor. All fail by default; implementations override the supported ones. */
export abstract class Descriptor {
  abstract readonly filetype: number
  /** The bits of `fdflags` with which it was opened. */
  readonly flags: number = 0
  /** Bits of `rights` for this descriptor. */
  abstract readonly rights: bigint
  /** Bits of `rights` for descriptors that are opened through it. */
  readonly inheritedRights: bigint = 0n

  /** Number of readable bytes, if it is not a file. */
  get readable(): number {
    return 0
  }

  /** Attributes of the file; undefined if it is not a file. */
  stat(): BigIntStats | undefined {
    return undefined
  }

  /** Reads into `bytes` from `start` to `end`, at `position` or the current position. @returns the number of bytes. */
  read(_bytes: Buffer, _start: number, _end: number, _position?: number): number {
    throw new WasiError('EBADF')
  }

  /** Writes `bytes` from `start` to `end`, at `position` or the current position. @returns the number of bytes. */
  write(_bytes: Buffer, _start: number, _end: number, _position?: number): number {
    throw new WasiError('EBADF')
  }

  /** Moves to `offset` bytes from the start (0), the current position (1) or the end (2). @returns the position. */
  seek(_offset: bigint, _whence: number): number {
    throw new WasiError('EBADF')
  }

  advise(): void {
    throw new WasiError('EBADF')
  }

  sync(): void {
    throw new WasiError('EBADF')
  }

  truncate(_size: number): void {
    throw new WasiError('EBADF')
  }

  /** Sets the times of access and of modification, in seconds. */
  setTimes(_atime: number, _mtime: number): void {
    throw new WasiError('EBADF')
  }

  close(): void {
    // Nothing to release by default.
  }
}

/** Bits of `rights`, by the functions that they allow. */
const BIT = {
  ...{ fd_datasync: 0, fd_read: 1, fd_seek: 2, fd_fdstat_set_flags: 3, fd_sync: 4, fd_tell: 5 },
  ...{ fd_write: 6, fd_advise: 7, fd_allocate: 8, path_create_directory: 9, path_create_file: 10 },
  ...{ path_link_source: 11, path_link_target: 12, path_open: 13, fd_readdir: 14, path_readlink: 15 },
  ...{ path_rename_source: 16, path_rename_target: 17, path_filestat_get: 18 },
  ...{ path_filestat_set_size: 19, path_filestat_set_times: 20, fd_filestat_get: 21 },
  ...{ fd_filestat_set_size: 22, fd_filestat_set_times: 23, path_symlink: 24 },
  ...{ path_remove_directory: 25, path_unlink_file: 26, poll_fd_readwrite: 27 },
} as const

function rights(...names: readonly (keyof typeof BIT)[]): bigint {
  return names.reduce((bits, name) => bits | (1n << BigInt(BIT[name])), 0n)
}

/** The rights that determine how a file is opened. */
export const RIGHT_READ = rights('fd_read')
export const RIGHT_WRITE = rights('fd_write')

/** Rights of streams. The right to seek is missing: libcs recognize a terminal by that, and buffer its output by lines. */
export const STREAM_INPUT = rights('fd_read', 'fd_filestat_get', 'poll_fd_readwrite')
export const STREAM_OUTPUT = rights('fd_write', 'fd_filestat_get', 'poll_fd_readwrite')

const FILE_RIGHTS = rights(
  'fd_seek',
  'fd_tell',
  'fd_advise',
  'fd_filestat_get',
  'fd_sync',
  'poll_fd_readwrite',
)
export const RIGHTS_FILE_READ = FILE_RIGHTS | RIGHT_READ
export const RIGHTS_FILE_WRITE =
  FILE_RIGHTS | RIGHT_WRITE | rights('fd_datasync', 'fd_filestat_set_size', 'fd_filestat_set_times')

export const RIGHTS_FOLDER_READ = rights(
  ...([
    'path_open',
    'fd_readdir',
    'path_readlink',
    'path_filestat_get',
    'fd_filestat_get',
    'fd_sync',
  ] as const),
)

export const RIGHTS_FOLDER_WRITE =
  RIGHTS_FOLDER_READ |
  rights(
    ...(['path_create_directory', 'path_create_file', 'path_link_source', 'path_link_target'] as const),
    ...(['path_rename_source', 'path_rename_target', 'path_filestat_set_size', 'path_symlink'] as const),
    ...(['path_filestat_set_times', 'fd_filestat_set_times', 'path_remove_directory'] as const),
    'path_unlink_file',
  )

const FILESTAT_SIZE = 64

/** Bits of `fstflags`. */
const SET_ATIME = 1
const ATIME_NOW = 2
const SET_MTIME = 4
const MTIME_NOW = 8

export function filetypeOf(stat: Stats | BigIntStats): number {
  if (stat.isFile()) return FILETYPE.regularFile
  if (stat.isDirectory()) return FILETYPE.directory
  if (stat.isSymbolicLink()) return FILETYPE.symbolicLink
  if (stat.isCharacterDevice()) return FILETYPE.characterDevice
  return stat.isBlockDevice() ? FILETYPE.blockDevice : FILETYPE.unknown
}

/** Writes a `filestat` record. Without `stat`, only the type is set. */
export function writeFilestat(
  memory: GuestMemory,
  pointer: number,
  filetype: number,
  stat?: BigIntStats,
): void {
  const at = memory.locate(pointer, FILESTAT_SIZE)
  memory.bytes.fill(0, at, at + FILESTAT_SIZE)
  memory.bytes[at + 16] = filetype
  if (!stat) return
  const { dev, ino, nlink, size, atimeNs, mtimeNs, ctimeNs } = stat
  const fields = [dev, ino, undefined, nlink, size, atimeNs, mtimeNs, ctimeNs]
  for (const [index, field] of fields.entries()) {
    if (field !== undefined) memory.view.setBigUint64(at + index * 8, field, true)
  }
}

/** Applies `fstflags` to the times of access and of modification, in seconds. Times that are not set stay. */
export function newTimes(
  stat: BigIntStats,
  atime: bigint,
  mtime: bigint,
  flags: number,
): [atime: number, mtime: number] {
  const pick = (wanted: bigint, current: bigint, set: number, now: number) => {
    if (flags & set && flags & now) throw new WasiError('EINVAL')
    if (flags & now) return Date.now() / 1000
    return Number(flags & set ? BigInt.asUintN(64, wanted) : current) / 1e9
  }
  return [pick(atime, stat.atimeNs, SET_ATIME, ATIME_NOW), pick(mtime, stat.mtimeNs, SET_MTIME, MTIME_NOW)]
}
