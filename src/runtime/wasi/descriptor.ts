import type { BigIntStats } from 'node:fs'
import { WasiError } from './errno.ts'

/** Most descriptors that a guest may have open at a time. Each may hold one of the host's, which all guests share. */
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

  /** Refuses now what {@link add} would refuse, before the host opens anything. */
  checkRoom(): void {
    if (this.#open.size >= MAX_DESCRIPTORS) throw new WasiError('EMFILE')
  }

  /** @returns The lowest number that is free. */
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

/** What a descriptor stands for, as WASI counts. */
export const FILETYPE = {
  unknown: 0,
  blockDevice: 1,
  characterDevice: 2,
  directory: 3,
  regularFile: 4,
  symbolicLink: 7,
} as const

/** What an open descriptor can do. An implementation overrides what it can; the rest is refused. */
export abstract class Descriptor {
  abstract readonly filetype: number
  /** Bits of `fdflags` that it was opened with. */
  readonly flags: number = 0
  /** Bits of `rights`: what may be done with it. */
  abstract readonly rights: bigint
  /** Bits of `rights`: what may be done with descriptors opened through it. */
  readonly inheritedRights: bigint = 0n

  /** How many bytes can be read, where there is no file. */
  get readable(): number {
    return 0
  }

  /** Attributes of the file; none, where there is no file. */
  stat(): BigIntStats | undefined {
    return undefined
  }

  /** Reads into `bytes` from `start` to `end`, at `position` or where the last read stopped. @returns How many bytes. */
  read(_bytes: Buffer, _start: number, _end: number, _position?: number): number {
    throw new WasiError('EBADF')
  }

  /** Writes `bytes` from `start` to `end`, at `position` or where the last write stopped. @returns How many bytes. */
  write(_bytes: Buffer, _start: number, _end: number, _position?: number): number {
    throw new WasiError('EBADF')
  }

  /** Moves to `offset` bytes from the start (0), from here (1) or from the end (2). @returns The position. */
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
    // Nothing is held, unless an implementation says so.
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

/** The rights that decide how a file is opened. */
export const READ = rights('fd_read')
export const WRITE = rights('fd_write')

/** Without the right to seek: that is how libcs know a terminal, whose output they buffer by lines. */
export const STREAM_INPUT = rights('fd_read', 'fd_filestat_get', 'poll_fd_readwrite')
export const STREAM_OUTPUT = rights('fd_write', 'fd_filestat_get', 'poll_fd_readwrite')

const FILE = rights('fd_seek', 'fd_tell', 'fd_advise', 'fd_filestat_get', 'fd_sync', 'poll_fd_readwrite')
export const FILE_READING = FILE | READ
export const FILE_WRITING =
  FILE | WRITE | rights('fd_datasync', 'fd_filestat_set_size', 'fd_filestat_set_times')

export const FOLDER_READING = rights(
  ...([
    'path_open',
    'fd_readdir',
    'path_readlink',
    'path_filestat_get',
    'fd_filestat_get',
    'fd_sync',
  ] as const),
)

export const FOLDER_WRITING =
  FOLDER_READING |
  rights(
    ...(['path_create_directory', 'path_create_file', 'path_link_source', 'path_link_target'] as const),
    ...(['path_rename_source', 'path_rename_target', 'path_filestat_set_size', 'path_symlink'] as const),
    ...(['path_filestat_set_times', 'fd_filestat_set_times', 'path_remove_directory'] as const),
    'path_unlink_file',
  )
