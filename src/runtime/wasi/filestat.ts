import type { BigIntStats, Stats } from 'node:fs'
import { FILETYPE } from './descriptor.ts'
import { WasiError } from './errno.ts'
import type { GuestMemory } from './guest-memory.ts'

const SIZE = 64

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

/** Writes a `filestat` record; of what is no file, only the type. */
export function writeFilestat(
  memory: GuestMemory,
  pointer: number,
  filetype: number,
  stat?: BigIntStats,
): void {
  const at = memory.locate(pointer, SIZE)
  memory.bytes.fill(0, at, at + SIZE)
  memory.bytes[at + 16] = filetype
  if (!stat) return
  const { dev, ino, nlink, size, atimeNs, mtimeNs, ctimeNs } = stat
  const fields = [dev, ino, undefined, nlink, size, atimeNs, mtimeNs, ctimeNs]
  for (const [index, field] of fields.entries()) {
    if (field !== undefined) memory.view.setBigUint64(at + index * 8, field, true)
  }
}

/** The times of access and of modification that a guest wants, in seconds; those that it does not set stay. */
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
