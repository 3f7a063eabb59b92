import { constants, existsSync, lstatSync, type Stats } from 'node:fs'
import { type FileHandle, open, readdir, readlink, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'

import { FD_FOLDER } from '../../runtime/wasi/directory.ts'

/** The descriptor is of a file or directory that is below the folder. Who has it closes it. */
export interface OpenedEntry {
  readonly handle: FileHandle
  readonly stat: Stats
  /** Leads to what is open, whatever has been moved or swapped since; without `/proc`, where it was found. */
  readonly path: string
}

/**
 * Opens what is really below a folder: links are followed as long as they do not lead out of it. Where it is, is
 * looked up before it is opened, so that nothing outside is, and once more of the open descriptor, so that somebody who
 * swaps a directory for a link in between gains nothing.
 *
 * Where there is no `/proc` (macOS), the second look goes by path: somebody who swaps
 * there at the right moments, thrice, can still lead us astray.
 *
 * @param names - Its path below the folder: no `..`, no separators.
 * @param fdFolder - Where the host shows open descriptors; tests name a folder that does not exist.
 * @returns undefined if there is nothing, or what is there is neither a file nor a directory, or not below the folder.
 * @throws an error of the file system, if it is there but cannot be opened.
 */
export async function openBelow(
  folder: string,
  names: readonly string[],
  fdFolder = FD_FOLDER,
): Promise<OpenedEntry | undefined> {
  try {
    const [top, found] = await Promise.all([realpath(folder), realpath(join(folder, ...names))])
    if (!isBelow(found, top) || !(await isSpelled(folder, names))) return undefined
    return await openReal(found, top, fdFolder)
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}

/** Not `O_PATH`, of which Node knows nothing. A FIFO does not block, and a terminal does not become the process's. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

async function openReal(found: string, top: string, fdFolder: string): Promise<OpenedEntry | undefined> {
  const handle = await open(found, FLAGS)
  let entry: OpenedEntry | undefined
  try {
    entry = await check(handle, found, top, fdFolder)
  } finally {
    if (!entry) await handle.close()
  }
  return entry
}

async function check(
  handle: FileHandle,
  found: string,
  top: string,
  fdFolder: string,
): Promise<OpenedEntry | undefined> {
  const stat = await handle.stat()
  if (!stat.isFile() && !stat.isDirectory()) return undefined
  const link = `${fdFolder}/${handle.fd}`
  if (existsSync(link)) return isBelow(await readlink(link), top) ? { handle, stat, path: link } : undefined
  const isStill = (await realpath(found)) === found && isSame(lstatSync(found), stat)
  return isStill ? { handle, stat, path: found } : undefined
}

/**
 * Whether the folder has entries of these very names. Windows and its file systems open others too, and among them
 * hidden ones: `ENV~1` for `.env`, `page::$DATA`, `page.`. Only a name that may be such a one is looked up: a folder may
 * have many entries.
 */
async function isSpelled(folder: string, names: readonly string[]): Promise<boolean> {
  let parent = folder
  for (const name of names) {
    if (MAY_BE_ALIAS.test(name) && !(await readdir(parent)).includes(name)) return false
    parent = join(parent, name)
  }
  return true
}

const MAY_BE_ALIAS = /[~:]|[. ]$/

function isBelow(path: string, top: string): boolean {
  return path === top || path.startsWith(top.endsWith(sep) ? top : `${top}${sep}`)
}

function isSame(one: Stats, other: Stats): boolean {
  return one.ino === other.ino && one.dev === other.dev
}

/** `ENXIO`: it is a socket. */
const ABSENCES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO'])

function isAbsence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ABSENCES.has(String(error.code))
}
