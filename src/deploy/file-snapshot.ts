import { type Dirent, readdirSync, realpathSync, type Stats, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FilesUnsettledError } from '../errors/errors.ts'
import { errorCode } from '../platform/system-errors.ts'
import { isServedScript } from '../plugin/source/url.ts'

/** Records the state of files when they are read, to detect changes. For folders, the plug-ins in them count. */
export class FileSnapshot {
  readonly #prints = new Map<string, string>()

  /** Call before reading a file, so that a change during the read is detected. */
  note(path: string): void {
    const place = resolve(path.replace(/#sha256=[^#]*$/, ''))
    if (!this.#prints.has(place)) this.#prints.set(place, printOf(place))
  }

  /** The files that have changed since. */
  changed(): string[] {
    return [...this.#prints].filter(([path, print]) => printOf(path) !== print).map(([path]) => path)
  }

  /** The files modified within this many milliseconds: more writes may follow. */
  youngerThan(ms: number): string[] {
    return [...this.#prints.keys()].filter((path) => {
      const found = statOf(path)
      return typeof found === 'object' && found.isFile() && Math.abs(Date.now() - found.mtimeMs) < ms
    })
  }
}

/** A file modified within this many milliseconds may be incomplete. */
const YOUNG_MS = 200

/** How long files may keep changing. */
const SETTLE_MS = 5_000

/** The polling interval meanwhile. */
const FILE_LOOK_MS = 50

/**
 * Reads files while they are not being written: repeats if they change during the read.
 *
 * @param read - Records each file before reading it.
 * @throws the error of the last attempt, {@link FilesUnsettledError} at the time limit, the signal's reason.
 */
export async function readSettled<Result>(
  read: (files: FileSnapshot) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const until = performance.now() + SETTLE_MS
  for (;;) {
    const files = new FileSnapshot()
    const [made] = await Promise.allSettled([read(files)])
    signal.throwIfAborted()
    for (;;) {
      const busy = [...new Set([...files.changed(), ...files.youngerThan(YOUNG_MS)])]
      if (busy.length === 0) {
        if (made.status === 'rejected') throw made.reason
        return made.value
      }
      if (performance.now() > until) throw new FilesUnsettledError(SETTLE_MS, busy.join(', '))
      await sleep(FILE_LOOK_MS)
      signal.throwIfAborted()
      if (files.changed().length > 0) break
    }
  }
}

/**
 * The state of a file or folder, to detect a change. Includes the inode: a file renamed into place may have the size and time of the old one. Includes the time at which the
 * permissions changed: a file may become readable.
 */
export function printOf(path: string): string {
  const found = statOf(path)
  if (typeof found === 'string') return found
  if (!found.isDirectory()) return `${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`
  try {
    return modulesIn(path).sort().join('\n')
  } catch (error) {
    return codeOf(error)
  }
}

/** @returns the code of the error if there is none: the loader reports it. */
function statOf(path: string): Stats | string {
  try {
    return statSync(path)
  } catch (error) {
    return codeOf(error)
  }
}

function codeOf(error: unknown): string {
  return String(errorCode(error))
}

/** Paths of a folder's mounts, also through links. A change within a file shows in that file's own fingerprint. */
function modulesIn(folder: string, seen = new Set<string>()): string[] {
  const real = realpathSync(folder)
  if (seen.has(real)) return []
  seen.add(real)
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.') && name !== 'node_modules')
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      if (isFolder(entry, path)) return modulesIn(path, seen)
      return /\.wasm$/i.test(entry.name) || isServedScript(entry.name) ? [path] : []
    })
}

function isFolder(entry: Dirent, path: string): boolean {
  if (!entry.isSymbolicLink()) return entry.isDirectory()
  const found = statOf(path)
  return typeof found === 'object' && found.isDirectory()
}
