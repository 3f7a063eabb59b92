import type { BigIntStats } from 'node:fs'
import { WasiError } from './errno.ts'

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
