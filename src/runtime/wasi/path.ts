import { lstatSync, readlinkSync, type Stats } from 'node:fs'
import type { Directory } from './directory.ts'
import { WasiError } from './errno.ts'

/** Most symbolic links that one path may lead through, as on Linux. */
const MAX_LINKS = 40

/** Most directories that a path may lead down; all are held open meanwhile. */
export const MAX_DEPTH = 64

/** Where a path ends: an entry of an open directory. It need not exist. */
export interface Place {
  readonly directory: Directory
  /** One name and never `..`; or `.`, the directory itself. */
  readonly name: string
  /** The path ended in `/`, and so means a directory. */
  readonly wantsDirectory: boolean
}

/**
 * Walks a path from a directory, component by component, and uses the place where it ends. Links are read by us and
 * walked in their turn, never followed by the host, so nothing leads above `base`: not `..`, not a link, not a rename
 * while we walk.
 *
 * @param follow - Whether a link at the end of the path is followed.
 * @throws {@link WasiError} `ENOTCAPABLE` for a path that would lead out, an absolute one included.
 */
export function atPath<Result>(
  base: Directory,
  path: string,
  follow: boolean,
  use: (place: Place) => Result,
): Result {
  const walk = new Walk(base)
  try {
    return use(walk.to(path, follow))
  } finally {
    walk.close()
  }
}

class Walk {
  /** The directories that were entered, outermost first; the first one is not ours to close. */
  readonly #entered: Directory[]
  #links = 0

  constructor(base: Directory) {
    this.#entered = [base]
  }

  to(path: string, follow: boolean): Place {
    if (path === '') throw new WasiError('ENOENT')
    const wantsDirectory = path.endsWith('/')
    const rest = split(path).reverse()
    for (let name = rest.pop(); name !== undefined; name = rest.pop()) {
      if (name === '..') this.#leave()
      else if (rest.length === 0) {
        const target = follow || wantsDirectory ? this.#link(name) : undefined
        if (target === undefined) return this.#place(name, wantsDirectory)
        rest.push(...target)
      } else {
        const target = this.#link(name)
        if (target) rest.push(...target)
        else this.#enter(name)
      }
    }
    return this.#place('.', true)
  }

  close(): void {
    while (this.#entered.length > 1) this.#entered.pop()?.close()
  }

  get #here(): Directory {
    const here = this.#entered.at(-1)
    if (!here) throw new WasiError('ENOTCAPABLE')
    return here
  }

  #place(name: string, wantsDirectory: boolean): Place {
    return { directory: this.#here, name, wantsDirectory }
  }

  #enter(name: string): void {
    if (this.#entered.length > MAX_DEPTH) throw new WasiError('ENAMETOOLONG')
    this.#entered.push(this.#here.child(name))
  }

  #leave(): void {
    if (this.#entered.length === 1) throw new WasiError('ENOTCAPABLE')
    this.#entered.pop()?.close()
  }

  /** The components of a link's target, last first; undefined if the entry is no link. */
  #link(name: string): string[] | undefined {
    const path = this.#here.at(name)
    if (!lstat(path)?.isSymbolicLink()) return undefined
    if (++this.#links > MAX_LINKS) throw new WasiError('ELOOP')
    return split(readlinkSync(path)).reverse()
  }
}

/** The attributes of an entry, itself and not what it may link to; undefined if there is none. */
export function lstat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

function split(path: string): string[] {
  if (path.startsWith('/')) throw new WasiError('ENOTCAPABLE')
  return path.split('/').filter((name) => name !== '' && name !== '.')
}
