import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs'
import { WasiError } from './errno.ts'

/**
 * Where Linux shows the open descriptors of a process as links to what they are. A path that begins with one begins
 * at that very directory, wherever it has been moved since: all that `openat` would give, if Node had it.
 */
export const FD_FOLDER = '/proc/self/fd'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/**
 * A directory of the host, held open. Its entries are reached by {@link at}, one name at a time, so that no path with
 * several components, in any of which a link may hide, is ever given to the operating system.
 *
 * Where there is no `/proc` (macOS), `at` goes by path, and checks first that the path still leads to this directory.
 * An attacker who swaps a component between that check and its use can redirect the access. On such hosts, give no guest a
 * folder to which a hostile program can write at the same time.
 */
export class Directory {
  readonly fd: number
  readonly #path: string
  readonly #fdFolder: string | undefined

  private constructor(fd: number, path: string, fdFolder: string | undefined) {
    this.fd = fd
    this.#path = path
    this.#fdFolder = fdFolder
  }

  /** Opens a directory that the operator named; links in its path are followed. */
  static open(path: string, fdFolder: string): Directory {
    const fd = openSync(path, O_RDONLY | O_DIRECTORY)
    return closeUnless(fd, () => new Directory(fd, realpathSync(path), leadsTo(fd, fdFolder)))
  }

  /** Opens a directory in this one, or with `.` this one anew. A symbolic link is not followed, but `ENOTDIR` or `ELOOP`. */
  child(name: string): Directory {
    const fd = openSync(this.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK)
    return closeUnless(fd, () => {
      const path = name === '.' ? this.#path : `${this.#path}/${name}`
      const child = new Directory(fd, path, this.#fdFolder)
      child.#check()
      return child
    })
  }

  /** The path of an entry, to use at once and in a way that follows no link. */
  at(name: string): string {
    return `${this.self()}/${name}`
  }

  /** The path of this directory, to use at once. */
  self(): string {
    if (this.#fdFolder !== undefined) return `${this.#fdFolder}/${this.fd}`
    this.#check()
    return this.#path
  }

  /** Without `/proc`: checks that the file opened by {@link at} is still the entry. */
  checkOpened(name: string, fd: number): void {
    if (this.#fdFolder !== undefined) return
    if (!isSameFile(lstatSync(this.at(name)), fstatSync(fd))) throw new WasiError('ENOTCAPABLE')
  }

  close(): void {
    closeSync(this.fd)
  }

  #check(): void {
    if (this.#fdFolder !== undefined) return
    const isHere =
      realpathSync(this.#path) === this.#path && isSameFile(statSync(this.#path), fstatSync(this.fd))
    if (!isHere) throw new WasiError('ENOTCAPABLE')
  }
}

/** Runs `use`, and closes the descriptor if it fails. */
export function closeUnless<Result>(fd: number, use: () => Result): Result {
  try {
    return use()
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function leadsTo(fd: number, fdFolder: string): string | undefined {
  const seen = statSync(`${fdFolder}/${fd}/.`, { throwIfNoEntry: false })
  return seen && isSameFile(seen, fstatSync(fd)) ? fdFolder : undefined
}

function isSameFile(one: Stats, other: Stats): boolean {
  return one.ino === other.ino && one.dev === other.dev
}
