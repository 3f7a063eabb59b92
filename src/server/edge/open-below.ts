import { constants, existsSync, lstatSync, type Stats } from 'node:fs'
import { type FileHandle, open, readdir, readlink, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { FD_FOLDER } from '../../platform/descriptors.ts'

/** The descriptor of a file or directory below the folder. The owner closes it. */
export interface OpenedEntry {
  readonly handle: FileHandle
  readonly stat: Stats
  /** A path to the open file, even if it was moved or replaced since; without `/proc`, the original path. */
  readonly path: string
}

/**
 * Opens a path that is really below a folder: links are followed unless they lead out of it. The real path is checked
 * before opening, so that nothing outside is opened, and again for the open descriptor, so that an attacker who swaps a
 * directory for a link in between gains nothing.
 *
 * Without `/proc` (macOS), the second check uses the path: an attacker who swaps it at the right moments, three times,
 * can still evade it.
 *
 * @param names - The path segments below the folder: no `..`, no separators.
 * @param fdFolder - Where the host lists open descriptors; tests pass a folder that does not exist.
 * @returns undefined if nothing is there, or it is neither a file nor a directory, or not below the folder.
 * @throws a file system error, if it exists but cannot be opened.
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

/** Flags without `O_PATH`, which Node does not support. FIFOs do not block, and a terminal does not become the controlling one. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

async function openReal(found: string, top: string, fdFolder: string): Promise<OpenedEntry | undefined> {
  const handle = await open(found, READ_FLAGS)
  let entry: OpenedEntry | undefined
  try {
    entry = await checkedHandle(handle, found, top, fdFolder)
  } finally {
    if (!entry) await handle.close()
  }
  return entry
}

async function checkedHandle(
  handle: FileHandle,
  found: string,
  top: string,
  fdFolder: string,
): Promise<OpenedEntry | undefined> {
  const stat = await handle.stat()
  if (!stat.isFile() && !stat.isDirectory()) return undefined
  const link = `${fdFolder}/${handle.fd}`
  if (existsSync(link)) return isBelow(await readlink(link), top) ? { handle, stat, path: link } : undefined
  const isStill = (await realpath(found)) === found && isSameFile(lstatSync(found), stat)
  return isStill ? { handle, stat, path: found } : undefined
}

/**
 * Whether the folder has entries with exactly these names. Windows and its file systems also open aliases, even of hidden
 * entries: `ENV~1` for `.env`, `page::$DATA`, `page.`. Only names that may be aliases are looked up, because a folder may
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

function isSameFile(one: Stats, other: Stats): boolean {
  return one.ino === other.ino && one.dev === other.dev
}

/** `ENXIO`: a socket. */
const ABSENCES = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO'])

function isAbsence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ABSENCES.has(String(error.code))
}
