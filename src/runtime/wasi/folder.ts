import {
  type BigIntStats,
  fstatSync,
  fsyncSync,
  futimesSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import {
  Descriptor,
  FILE_READING,
  FILE_WRITING,
  FILETYPE,
  FOLDER_READING,
  FOLDER_WRITING,
} from './descriptor.ts'
import type { Directory } from './directory.ts'
import { WasiError } from './errno.ts'
import { type FileMode, openFile } from './file.ts'
import { newTimes } from './filestat.ts'
import { atPath, checkMovable, leadsDown, lstat, type Place } from './path.ts'

/** What a guest wants of a path that it opens. */
export type OpenRequest = Omit<FileMode, 'frozen'> & { readonly directory: boolean }

/** A directory that a guest has open. All its paths begin here, and none leads above. */
export class Folder extends Descriptor {
  override readonly filetype = FILETYPE.directory
  override readonly rights: bigint
  override readonly inheritedRights: bigint
  /** The guest's name of a folder that was given to it; undefined for those that it opened in one. */
  readonly guestName: string | undefined
  readonly #directory: Directory
  readonly #readOnly: boolean
  #names: readonly string[] | undefined

  constructor(directory: Directory, readOnly: boolean, guestName?: string) {
    super()
    this.#directory = directory
    this.#readOnly = readOnly
    this.guestName = guestName
    this.rights = readOnly ? FOLDER_READING : FOLDER_WRITING
    this.inheritedRights = this.rights | FILE_READING | (readOnly ? 0n : FILE_WRITING)
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

  /** The names in this directory, from the one with this number on; read anew when the guest begins with 0. */
  *entries(first: number): Generator<{ name: string; stat: BigIntStats | undefined }> {
    if (first === 0 || !this.#names) this.#names = readdirSync(this.#directory.self())
    for (let index = first; index < this.#names.length; index++) {
      const name = this.#names[index] ?? ''
      yield { name, stat: lstatSync(this.#directory.at(name), { bigint: true, throwIfNoEntry: false }) }
    }
  }

  statPath(path: string, follow: boolean): BigIntStats {
    return atPath(this.#directory, path, follow, statPlace)
  }

  setPathTimes(path: string, follow: boolean, atime: bigint, mtime: bigint, flags: number): void {
    this.#checkWritable()
    atPath(this.#directory, path, follow, (place) => {
      const times = newTimes(statPlace(place), atime, mtime, flags)
      lutimesSync(pathOf(place), ...times)
    })
  }

  createDirectory(path: string): void {
    this.#change(path, (place) => mkdirSync(pathOf(place)))
  }

  removeDirectory(path: string): void {
    this.#change(path, (place) => rmdirSync(pathOf(place)))
  }

  unlink(path: string): void {
    this.#change(path, (place) => {
      if (statPlace(place).isDirectory()) throw new WasiError('EISDIR')
      unlinkSync(pathOf(place))
    })
  }

  /** @throws {@link WasiError} `ENOTCAPABLE` for a link that could lead elsewhere then, and for a folder around one. */
  rename(path: string, target: Folder, newPath: string): void {
    target.#checkWritable()
    this.#change(path, (from) =>
      target.#change(newPath, (to) => {
        if (to.wantsDirectory && !statPlace(from).isDirectory()) throw new WasiError('ENOTDIR')
        if (from.wantsDirectory) statPlace(from)
        checkMovable(from.directory, from.name)
        renameSync(pathOf(from), pathOf(to))
      }),
    )
  }

  /** Makes a hard link to a regular file. The folder of the file must be writable too: so is the file by its new name. */
  link(path: string, follow: boolean, target: Folder, newPath: string): void {
    this.#checkWritable()
    target.#checkWritable()
    atPath(this.#directory, path, follow, (from) =>
      target.#change(newPath, (to) => {
        if (!statPlace(from).isFile()) throw new WasiError('EPERM')
        linkSync(pathOf(from), pathOf(to))
      }),
    )
  }

  /**
   * Makes a symbolic link that leads down: we would not follow one out of the folder, but programs of the host might.
   *
   * @throws {@link WasiError} `ENOTCAPABLE` for a target that is absolute, has a `..` or is only `.`.
   */
  symlink(target: string, path: string): void {
    this.#change(path, (place) => {
      if (!leadsDown(target)) throw new WasiError('ENOTCAPABLE')
      symlinkSync(target, pathOf(place))
    })
  }

  /** @throws {@link WasiError} `ENOTCAPABLE` for an absolute target: it would tell how the host names its folders. */
  readlink(path: string): string {
    const target = atPath(this.#directory, path, false, (place) => readlinkSync(pathOf(place)))
    if (target.startsWith('/')) throw new WasiError('ENOTCAPABLE')
    return target
  }

  #change(path: string, change: (place: Place) => void): void {
    this.#checkWritable()
    atPath(this.#directory, path, false, change)
  }

  #checkWritable(): void {
    if (this.#readOnly) throw new WasiError('EROFS')
  }

  #openPlace(place: Place, request: OpenRequest): Descriptor {
    const { directory, name, wantsDirectory } = place
    const found = lstat(pathOf(place))
    const changes = request.create || request.truncate
    if (found && request.create && request.exclusive) throw new WasiError('EEXIST')
    if (found?.isDirectory()) {
      if (changes || (request.write && !request.directory)) throw new WasiError('EISDIR')
      return new Folder(directory.child(name), this.#readOnly)
    }
    if (found?.isSymbolicLink()) throw new WasiError('ELOOP')
    if (request.directory || wantsDirectory) throw new WasiError(found ? 'ENOTDIR' : 'ENOENT')
    if (found && !found.isFile()) throw new WasiError('EACCES') // a FIFO blocks, a device does who knows what
    if (changes || request.write) this.#checkWritable()
    return openFile(directory, name, { ...request, frozen: this.#readOnly })
  }
}

function pathOf({ directory, name }: Place): string {
  return directory.at(name)
}

function statPlace(place: Place): BigIntStats {
  const stat = lstatSync(pathOf(place), { bigint: true })
  if (place.wantsDirectory && !stat.isDirectory()) throw new WasiError('ENOTDIR')
  return stat
}
