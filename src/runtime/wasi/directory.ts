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

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/**
 * An open directory of the host. Its entries are accessed through {@link at}, one name at a time, so that the operating
 * system never resolves a path with several components, any of which might be a link.
 *
 * Without `/proc` (macOS), `at` uses the path, after checking that it still leads to this directory. An attacker who swaps
 * a component between check and use can redirect the access. On such hosts, do not give a guest a folder that a hostile
 * program can write to at the same time.
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

  /** Opens a directory in this one, or with `.` this one again. A symbolic link is not followed: `ENOTDIR` or `ELOOP`. */
  child(name: string): Directory {
    const fd = openSync(this.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK)
    return closeUnless(fd, () => {
      const path = name === '.' ? this.#path : `${this.#path}/${name}`
      const child = new Directory(fd, path, this.#fdFolder)
      child.#check()
      return child
    })
  }

  /** The path of an entry. Use it immediately, and without following links. */
  at(name: string): string {
    return `${this.self()}/${name}`
  }

  /** The path of this directory, for immediate use. */
  self(): string {
    if (this.#fdFolder !== undefined) return `${this.#fdFolder}/${this.fd}`
    this.#check()
    return this.#path
  }

  /** Checks, without `/proc`, that the file opened by {@link at} is still the entry. */
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
