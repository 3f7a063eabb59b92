import { lstatSync, opendirSync, readlinkSync, type Stats } from 'node:fs'
import type { Directory } from './directory.ts'
import { WasiError } from './errno.ts'

/*
 * Why guests cannot make a link lead out of its folder, even if several of them act at the same time:
 *
 * 1. A guest makes only links to names: no `..`, no `/` at the beginning, not only `.`. From any directory such a link
 *    leads down, and not above its own place. So it does not matter where it is moved, what its parts become later, or
 *    which part of the folder another program serves.
 * 2. All other links were made by other programs. One whose text has n times `..` depends on the n directories
 *    above it (an absolute one on all of them). Neither it nor these directories can be renamed by a guest. So they are
 *    still where the check finds them, and nothing that a guest moves into a tree during its check can be one of them.
 *
 * Both are decided by what no guest can change between the check and the rename, so there is nothing to lock. Links
 * with `..` that stay inside are refused too, for they stay inside only until a directory around them is moved, and the
 * check of that directory could come before the link. wasi-libc and the standard libraries of Rust, Go and Python make
 * no links of their own; what a program asks for is handed on.
 *
 * What remains: links that a program of the host makes in the folder at the very time of a rename, and those of the
 * operator with `..` behind names that are links themselves (`name/../..`), which end elsewhere if a guest replaces those.
 */

/** Maximum entries that are looked at before a guest moves a directory; each takes up to 40 µs of the guest's own time. */
export const MAX_MOVED_ENTRIES = 10_000

const READ_AT_A_TIME = 256

/** Whether a link to `target` leads down from any directory. */
export function leadsDown(target: string): boolean {
  return climb(target) === 0 && target.split('/').some((name) => name !== '' && name !== '.')
}

/**
 * Checks that an entry can be renamed: that it is no link that leads up, and has none in it that leads out of it.
 *
 * @throws {@link WasiError} `ENOTCAPABLE` if not; `EXDEV`, at which programs copy instead, for a directory that is too
 * large or too deep to be looked through.
 */
export function checkMovable(directory: Directory, name: string): void {
  const found = lstat(directory.at(name))
  if (found?.isSymbolicLink()) checkLink(directory, name, 0)
  else if (found?.isDirectory()) new MovedTree().check(directory, name, 0)
}

class MovedTree {
  #seen = 0

  /** @param depth - How many directories lie around the entries of this one, up to the one that is moved. */
  check(parent: Directory, name: string, depth: number): void {
    if (depth >= MAX_PATH_DEPTH) throw new WasiError('EXDEV')
    const directory = parent.child(name)
    try {
      this.#checkEntries(directory, depth)
    } finally {
      directory.close()
    }
  }

  #checkEntries(directory: Directory, depth: number): void {
    const entries = opendirSync(directory.self(), { bufferSize: READ_AT_A_TIME })
    try {
      for (let entry = entries.readSync(); entry; entry = entries.readSync()) {
        if (++this.#seen > MAX_MOVED_ENTRIES) throw new WasiError('EXDEV')
        if (entry.isSymbolicLink()) checkLink(directory, entry.name, depth)
        else if (entry.isDirectory()) this.check(directory, entry.name, depth + 1)
      }
    } finally {
      entries.closeSync()
    }
  }
}

function checkLink(directory: Directory, name: string, depth: number): void {
  if (climb(readlinkSync(directory.at(name))) > depth) throw new WasiError('ENOTCAPABLE')
}

/** Maximum number of directories that a link can lead up, by its text alone. */
function climb(target: string): number {
  if (target.startsWith('/')) return Number.POSITIVE_INFINITY
  return target.split('/').filter((name) => name === '..').length
}

/** Maximum symbolic links that one path may lead through, as on Linux. */
const MAX_FOLLOWED_LINKS = 40

/** Maximum directories that a path may lead down; all are held open meanwhile. */
export const MAX_PATH_DEPTH = 64

/** Where a path ends: an entry of an open directory. It need not exist. */
export interface DirectoryEntry {
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
  use: (place: DirectoryEntry) => Result,
): Result {
  const walk = new PathWalk(base)
  try {
    return use(walk.to(path, follow))
  } finally {
    walk.close()
  }
}

class PathWalk {
  /** The directories that were entered, outermost first; the first one is not ours to close. */
  readonly #entered: Directory[]
  #links = 0

  constructor(base: Directory) {
    this.#entered = [base]
  }

  to(path: string, follow: boolean): DirectoryEntry {
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

  #place(name: string, wantsDirectory: boolean): DirectoryEntry {
    return { directory: this.#here, name, wantsDirectory }
  }

  #enter(name: string): void {
    if (this.#entered.length > MAX_PATH_DEPTH) throw new WasiError('ENAMETOOLONG')
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
    if (++this.#links > MAX_FOLLOWED_LINKS) throw new WasiError('ELOOP')
    return split(readlinkSync(path)).reverse()
  }
}

/** The attributes of an entry, without following a link; undefined if there is none. */
export function lstat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

function split(path: string): string[] {
  if (path.startsWith('/')) throw new WasiError('ENOTCAPABLE')
  return path.split('/').filter((name) => name !== '' && name !== '.')
}
