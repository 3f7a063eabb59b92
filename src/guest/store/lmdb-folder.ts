import { randomUUID } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  linkSync,
  openSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { problemWithLmdbFile } from './lmdb-file.ts'

/** Names of databases in the file. */
export const [VALUES, EXPIRIES] = ['values', 'expiries']

/** The file names of LMDB. */
export const DATA = 'data.mdb'
const LOCK = 'lock.mdb'

/** Pages that are read before LMDB maps a file: all of a small store, in a few milliseconds, and the top of a large one. */
export const PAGES_AT_START = 1_000

/** How long another process may take to create a file. */
const RECHECK_MS = 100

/**
 * Checks the files of a folder, which LMDB does not do.
 *
 * @param mostPages - See {@link problemWithLmdbFile}.
 * @throws Error with the reason.
 */
export async function checkLmdbFolder(folder: string, mostPages: number): Promise<void> {
  const [data, lock] = [join(folder, DATA), join(folder, LOCK)]
  const find = () => {
    for (const path of [data, lock]) {
      const found = statOf(path)
      if (found && !found.isFile()) return `${path} is not a file`
      // The lock file is never opened here: closing it would release the locks of this process.
      if (found) accessSync(path, constants.R_OK | constants.W_OK)
    }
    const problem = statOf(data) && problemWithLmdbFile(data, mostPages, [VALUES, EXPIRIES])
    return problem && `${data}: ${problem}`
  }
  if (find() === undefined) return
  await setTimeout(RECHECK_MS)
  const problem = find()
  if (problem !== undefined) throw new Error(problem)
}

/** More bytes than LMDB's first pages and its locks need. */
const RESERVED = 65_536

/** Bytes of LMDB's lock file, with 126 readers. A build of LMDB that needs more extends it. */
const LOCK_BYTES = 8_272

/**
 * Makes sure that the disk has room for a new store and for its locks. LMDB writes the locks through mapped memory,
 * where a full disk ends the process. So the lock file is created here, with its bytes on the disk.
 *
 * @throws the error of the system.
 */
export function reserve(folder: string): void {
  const lock = join(folder, LOCK)
  const found = statOf(lock)
  const hasLocks = found !== undefined && found.size > 0 && found.blocks * BLOCK >= found.size
  if (hasLocks && statOf(join(folder, DATA))?.size) return
  const [own, rest] = [join(folder, `reserved-${randomUUID()}`), join(folder, `reserved-${randomUUID()}`)]
  try {
    writeToDisk(own, LOCK_BYTES)
    writeToDisk(rest, RESERVED)
    if (!found) linkIfAbsent(own, lock)
  } finally {
    rmSync(own, { force: true })
    rmSync(rest, { force: true })
  }
}

/** Whether a folder has a store. */
export function hasLmdbFile(folder: string): boolean {
  return Boolean(statOf(join(folder, DATA))?.size)
}

/** Creates a file of zeros. It is flushed before it is closed: only then its space is allocated. */
function writeToDisk(path: string, length: number): void {
  const { O_WRONLY, O_CREAT, O_EXCL, O_DSYNC = 0 } = constants
  // Not `fsync`, which Node's permission model does not allow. Windows has no such flag.
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_DSYNC)
  try {
    for (let written = 0; written < length; ) written += writeSync(file, Buffer.alloc(length - written))
  } finally {
    closeSync(file)
  }
}

/** The block size that `stat` counts in. */
const BLOCK = 512

/** Links the file unless another process was faster. Without hard links, the disk has at least been found to have room. */
function linkIfAbsent(path: string, name: string): void {
  try {
    linkSync(path, name)
  } catch {
    // LMDB creates it.
  }
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}
