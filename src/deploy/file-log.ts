import { readdirSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FilesUnsettledError } from '../errors/errors.ts'

/** Notes what files were when they were read, so that a change shows. Folders count with the plug-ins in them. */
export class FileLog {
  readonly #prints = new Map<string, string>()

  /** To be called before a file is read: a change while it is read shows too. */
  note(path: string): void {
    const place = resolve(path.replace(/#sha256=[^#]*$/, ''))
    if (!this.#prints.has(place)) this.#prints.set(place, printOf(place))
  }

  /** Those that are not what they were. */
  changed(): string[] {
    return [...this.#prints].filter(([path, print]) => printOf(path) !== print).map(([path]) => path)
  }

  /** Those that were written to within so many milliseconds: more may follow. */
  youngerThan(ms: number): string[] {
    return [...this.#prints.keys()].filter((path) => {
      const found = statSync(path, { throwIfNoEntry: false })
      return found?.isFile() === true && Math.abs(Date.now() - found.mtimeMs) < ms
    })
  }
}

/** A file that was written to within so many milliseconds may not be whole. */
const YOUNG_MS = 200

/** How long files may go on changing. */
const SETTLE_MS = 5_000

/** How often to look meanwhile. */
const FILE_LOOK_MS = 50

/**
 * Reads files that nobody is writing to: again, if they change meanwhile.
 *
 * @param read - Notes each file before it is read.
 * @throws what the last reading throws, {@link FilesUnsettledError} if there is no end to it, the reason of the signal.
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

/** The inode too: a file that was renamed into place may have the size and time of the old one. */
function printOf(path: string): string {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return 'none'
    if (found.isDirectory()) return modulesIn(path).join('\n')
    return `${found.ino} ${found.size} ${found.mtimeMs}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code) // who loads it says why it cannot be read
  }
}

/** Paths of what a folder mounts; that a file in it has changed, its own print shows. */
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
