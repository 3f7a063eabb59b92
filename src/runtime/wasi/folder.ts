import {
  type BigIntStats,
  fstatSync,
  fsyncSync,
  futimesSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  opendirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import {
  Descriptor,
  FILETYPE,
  newTimes,
  RIGHTS_FILE_READ,
  RIGHTS_FILE_WRITE,
  RIGHTS_FOLDER_READ,
  RIGHTS_FOLDER_WRITE,
} from './descriptor.ts'
import type { Directory } from './directory.ts'
import { WasiError } from './errno.ts'
import { type FileMode, openRegularFile } from './file.ts'

/** How a guest opens a path. */
export type OpenRequest = Omit<FileMode, 'frozen'> & { readonly directory: boolean }

/** A directory opened by a guest. All its paths start here, and none leads above it. */
export class Folder extends Descriptor {
  override readonly filetype = FILETYPE.directory
  override readonly rights: bigint
  override readonly inheritedRights: bigint
  /** The guest's name of a preopened folder; undefined for folders opened within one. */
  readonly guestName: string | undefined
  readonly #directory: Directory
  readonly #readOnly: boolean
  #names: readonly string[] | undefined

  constructor(directory: Directory, readOnly: boolean, guestName?: string) {
    super()
    this.#directory = directory
    this.#readOnly = readOnly
    this.guestName = guestName
    this.rights = readOnly ? RIGHTS_FOLDER_READ : RIGHTS_FOLDER_WRITE
    this.inheritedRights = this.rights | RIGHTS_FILE_READ | (readOnly ? 0n : RIGHTS_FILE_WRITE)
  }

  open(path: string, follow: boolean, request: OpenRequest): Descriptor {
    return atPath(this.#directory, path, follow && !request.exclusive, (place) =>
      this.#openPlace(place, request),
    )
  }

  override stat(): BigIntStats {
    return fstatSync(this.#directory.fd, { bigint: true })
  }

  override sync(): void {
    fsyncSync(this.#directory.fd)
  }

  override setTimes(atime: number, mtime: number): void {
    this.#checkWritable()
    futimesSync(this.#directory.fd, atime, mtime)
  }

  override close(): void {
    this.#directory.close()
  }

  /** The names in this directory from this number on. Read again when the guest starts with 0. */
  *entries(first: number): Generator<{ name: string; stat: BigIntStats | undefined }> {
    if (first === 0 || !this.#names) this.#names = readdirSync(this.#directory.self())
    for (let index = first; index < this.#names.length; index++) {
      const name = this.#names[index] ?? ''
      yield { name, stat: lstatSync(this.#directory.at(name), { bigint: true, throwIfNoEntry: false }) }
    }
  }

  statPath(path: string, follow: boolean): BigIntStats {
    return atPath(this.#directory, path, follow, statEntry)
  }

  setPathTimes(path: string, follow: boolean, atime: bigint, mtime: bigint, flags: number): void {
    this.#checkWritable()
    atPath(this.#directory, path, follow, (place) => {
      const times = newTimes(statEntry(place), atime, mtime, flags)
      lutimesSync(pathOfEntry(place), ...times)
    })
  }

  createDirectory(path: string): void {
    this.#change(path, (place) => mkdirSync(pathOfEntry(place)))
  }

  removeDirectory(path: string): void {
    this.#change(path, (place) => rmdirSync(pathOfEntry(place)))
  }

  unlink(path: string): void {
    this.#change(path, (place) => {
      if (statEntry(place).isDirectory()) throw new WasiError('EISDIR')
      unlinkSync(pathOfEntry(place))
    })
  }

  /** @throws {@link WasiError} `ENOTCAPABLE` for a link that could then lead elsewhere, and for a folder containing one. */
  rename(path: string, target: Folder, newPath: string): void {
    target.#checkWritable()
    this.#change(path, (from) =>
      target.#change(newPath, (to) => {
        if (to.wantsDirectory && !statEntry(from).isDirectory()) throw new WasiError('ENOTDIR')
        if (from.wantsDirectory) statEntry(from)
        checkMovable(from.directory, from.name)
        renameSync(pathOfEntry(from), pathOfEntry(to))
      }),
    )
  }

  /** Creates a hard link to a regular file. The file's folder must be writable too, because the new name makes it writable. */
  link(path: string, follow: boolean, target: Folder, newPath: string): void {
    this.#checkWritable()
    target.#checkWritable()
    atPath(this.#directory, path, follow, (from) =>
      target.#change(newPath, (to) => {
        if (!statEntry(from).isFile()) throw new WasiError('EPERM')
        linkSync(pathOfEntry(from), pathOfEntry(to))
      }),
    )
  }

  /**
   * Creates a symbolic link that leads down: guests cannot follow one out of the folder, but programs of the host might.
   *
   * @throws {@link WasiError} `ENOTCAPABLE` for a target that is absolute, contains `..` or is only `.`.
   */
  symlink(target: string, path: string): void {
    this.#change(path, (place) => {
      if (!leadsDown(target)) throw new WasiError('ENOTCAPABLE')
      symlinkSync(target, pathOfEntry(place))
    })
  }

  /** @throws {@link WasiError} `ENOTCAPABLE` for an absolute target: it would disclose paths of the host. */
  readlink(path: string): string {
    const target = atPath(this.#directory, path, false, (place) => readlinkSync(pathOfEntry(place)))
    if (target.startsWith('/')) throw new WasiError('ENOTCAPABLE')
    return target
  }

  #change(path: string, change: (place: DirectoryEntry) => void): void {
    this.#checkWritable()
    atPath(this.#directory, path, false, change)
  }

  #checkWritable(): void {
    if (this.#readOnly) throw new WasiError('EROFS')
  }

  #openPlace(place: DirectoryEntry, request: OpenRequest): Descriptor {
    const { directory, name, wantsDirectory } = place
    const found = lstat(pathOfEntry(place))
    const changes = request.create || request.truncate
    if (found && request.create && request.exclusive) throw new WasiError('EEXIST')
    if (found?.isDirectory()) {
      if (changes || (request.write && !request.directory)) throw new WasiError('EISDIR')
      return new Folder(directory.child(name), this.#readOnly)
    }
    if (found?.isSymbolicLink()) throw new WasiError('ELOOP')
    if (request.directory || wantsDirectory) throw new WasiError(found ? 'ENOTDIR' : 'ENOENT')
    if (found && !found.isFile()) throw new WasiError('EACCES') // a FIFO blocks, and opening a device may have side effects
    if (changes || request.write) this.#checkWritable()
    return openRegularFile(directory, name, { ...request, frozen: this.#readOnly })
  }
}

function pathOfEntry({ directory, name }: DirectoryEntry): string {
  return directory.at(name)
}

function statEntry(place: DirectoryEntry): BigIntStats {
  const stat = lstatSync(pathOfEntry(place), { bigint: true })
  if (place.wantsDirectory && !stat.isDirectory()) throw new WasiError('ENOTDIR')
  return stat
}

/*
 * Why guests cannot make a link lead out of its folder, even if several act concurrently:
 *
 * 1. A guest creates only links to names: no `..`, no leading `/`, not only `.`. From any directory such a link leads down,
 *    never above its own location. So it does not matter where it is moved, what its components become later, or which
 *    part of the folder another program serves.
 * 2. All other links were created by other programs. A link whose text has n times `..` depends on the n directories
 *    above it (an absolute one on all of them). Guests can rename neither it nor these directories. So they are still where
 *    the check finds them, and nothing that a guest moves into a tree during the check can be one of them.
 *
 * Both depend only on things that no guest can change between check and rename, so no lock is needed. Links with `..` that
 * stay inside are refused too: they stay inside only until a directory around them is moved, and the check of that
 * directory could precede the link. wasi-libc and the standard libraries of Rust, Go and Python create no links on their
 * own; a program's request is passed on.
 *
 * Remaining cases: links that a program of the host creates in the folder during a rename, and links of the operator with
 * `..` after names that are links themselves (`name/../..`), which lead elsewhere if a guest replaces those.
 */

/** Maximum entries checked before a guest moves a directory. Each takes up to 40 µs of the guest's time. */
export const MAX_MOVED_ENTRIES = 10_000

const READ_AT_A_TIME = 256

/** Whether a link to `target` leads down from any directory. */
function leadsDown(target: string): boolean {
  return climb(target) === 0 && target.split('/').some((name) => name !== '' && name !== '.')
}

/**
 * Checks that an entry can be renamed: it is not a link that leads up, and contains none that leads out of it.
 *
 * @throws {@link WasiError} `ENOTCAPABLE` if not; `EXDEV`, on which programs copy instead, for a directory that is too
 * large or too deep to check.
 */
function checkMovable(directory: Directory, name: string): void {
  const found = lstat(directory.at(name))
  if (found?.isSymbolicLink()) checkLink(directory, name, 0)
  else if (found?.isDirectory()) new MovedTree().check(directory, name, 0)
}

class MovedTree {
  #seen = 0

  /** @param depth - Number of directories above these entries, up to the one that is moved. */
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

/** Maximum symbolic links in a path, as on Linux. */
const MAX_FOLLOWED_LINKS = 40

/** Maximum depth of a path: all its directories are held open. */
export const MAX_PATH_DEPTH = 64

/** The end of a path: an entry of an open directory. It need not exist. */
interface DirectoryEntry {
  readonly directory: Directory
  /** A single name other than `..`; or `.`, the directory itself. */
  readonly name: string
  /** Whether the path ended in `/`, and so denotes a directory. */
  readonly wantsDirectory: boolean
}

/**
 * Resolves a path component by component, and uses its end. Links are read and resolved here, never followed by the host,
 * so nothing leads above `base`: neither `..`, nor a link, nor a concurrent rename.
 *
 * @param follow - Whether a link at the end of the path is followed.
 * @throws {@link WasiError} `ENOTCAPABLE` for a path that would lead out, including an absolute one.
 */
function atPath<Result>(
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
  /** The entered directories, outermost first. The first one must not be closed here. */
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

  /** The components of a link's target, last first; undefined if the entry is not a link. */
  #link(name: string): string[] | undefined {
    const path = this.#here.at(name)
    if (!lstat(path)?.isSymbolicLink()) return undefined
    if (++this.#links > MAX_FOLLOWED_LINKS) throw new WasiError('ELOOP')
    return split(readlinkSync(path)).reverse()
  }
}

/** The attributes of an entry, without following a link; undefined if there is none. */
function lstat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

function split(path: string): string[] {
  if (path.startsWith('/')) throw new WasiError('ENOTCAPABLE')
  return path.split('/').filter((name) => name !== '' && name !== '.')
}
