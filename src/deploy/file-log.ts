import { readdirSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FilesUnsettledError } from '../errors/errors.ts'

/**
 * Records the state of files when they are read, to detect changes. For folders, the plug-ins in them count. Also records
 * which digests the tags of registries had.
 */
export class FileLog {
  /** The digest of each tag, by reference. */
  readonly tags = new Map<string, string>()
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
      const found = statSync(path, { throwIfNoEntry: false })
      return found?.isFile() === true && Math.abs(Date.now() - found.mtimeMs) < ms
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
  read: (files: FileLog) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const until = performance.now() + SETTLE_MS
  for (;;) {
    const files = new FileLog()
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

/** Includes the inode: a file renamed into place may have the size and time of the old one. */
function printOf(path: string): string {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return 'none'
    if (found.isDirectory()) return modulesIn(path).join('\n')
    return `${found.ino} ${found.size} ${found.mtimeMs}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code) // the loader reports why it cannot be read
  }
}

/** Paths of a folder's mounts. A change within a file shows in that file's own fingerprint. */
function modulesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.'))
    .flatMap((entry) => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return modulesIn(path)
      return /\.wasm$/i.test(entry.name) || entry.isSymbolicLink() ? [path] : []
    })
    .sort()
}
