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
import { atPath, checkMovable, type DirectoryEntry, leadsDown, lstat } from './path.ts'

/** How a guest opens a path. */
export type OpenRequest = Omit<FileMode, 'frozen'> & { readonly directory: boolean }

/** A directory that a guest has open. All its paths begin here, and none leads above. */
export class Folder extends Descriptor {
  override readonly filetype = FILETYPE.directory
  override readonly rights: bigint
  override readonly inheritedRights: bigint
  /** The guest's name of a preopened folder; undefined for folders that it opened in one. */
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
      if (statPlace(place).isDirectory()) throw new WasiError('EISDIR')
      unlinkSync(pathOfEntry(place))
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
        renameSync(pathOfEntry(from), pathOfEntry(to))
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
        linkSync(pathOfEntry(from), pathOfEntry(to))
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

function statPlace(place: DirectoryEntry): BigIntStats {
  const stat = lstatSync(pathOfEntry(place), { bigint: true })
  if (place.wantsDirectory && !stat.isDirectory()) throw new WasiError('ENOTDIR')
  return stat
}
