import {
  type DescriptorTable,
  FILETYPE,
  filetypeOf,
  newTimes,
  RIGHT_READ,
  RIGHT_WRITE,
  writeFilestat,
} from './descriptor.ts'
import { WasiError, wasiFunction } from './errno.ts'
import { APPEND, NONBLOCK } from './file.ts'
import { Folder, type OpenRequest } from './folder.ts'
import type { GuestMemory } from './guest-memory.ts'

const MAX_ADVICE = 5

/** `fd_*`, except for folders: operations on open descriptors. */
export function openFdFunctions(memory: GuestMemory, table: DescriptorTable) {
  return {
    fd_read: wasiFunction((fd: number, list: number, count: number, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      const moved = memory.transfer(list, count, (bytes, start, end) => file.read(bytes, start, end))
      memory.view.setUint32(at, moved, true)
    }),
    fd_pread: wasiFunction((fd: number, list: number, count: number, offset: bigint, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      let position = toPosition(offset)
      const moved = memory.transfer(list, count, (bytes, start, end) => {
        const length = file.read(bytes, start, end, position)
        position += length
        return length
      })
      memory.view.setUint32(at, moved, true)
    }),
    fd_write: wasiFunction((fd: number, list: number, count: number, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      const moved = memory.transfer(list, count, (bytes, start, end) => file.write(bytes, start, end))
      memory.view.setUint32(at, moved, true)
    }),
    fd_pwrite: wasiFunction((fd: number, list: number, count: number, offset: bigint, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      let position = toPosition(offset)
      const moved = memory.transfer(list, count, (bytes, start, end) => {
        const length = file.write(bytes, start, end, position)
        position += length
        return length
      })
      memory.view.setUint32(at, moved, true)
    }),
    fd_seek: wasiFunction((fd: number, offset: bigint, whence: number, result: number) => {
      const at = memory.locate(result, 8)
      const position = table.get(fd).seek(BigInt.asIntN(64, offset), whence >>> 0)
      memory.view.setBigUint64(at, BigInt(position), true)
    }),
    fd_tell: wasiFunction((fd: number, result: number) => {
      memory.setU64(result, BigInt(table.get(fd).seek(0n, 1)))
    }),
    fd_close: wasiFunction((fd: number) => table.close(fd)),
    fd_renumber: wasiFunction((from: number, to: number) => table.renumber(from, to)),
    fd_fdstat_get: wasiFunction((fd: number, result: number) => {
      const { filetype, flags, rights, inheritedRights } = table.get(fd)
      const at = memory.locate(result, 24)
      memory.view.setUint16(at, filetype, true)
      memory.view.setUint32(at + 2, flags, true)
      memory.view.setUint16(at + 6, 0, true)
      memory.view.setBigUint64(at + 8, rights, true)
      memory.view.setBigUint64(at + 16, inheritedRights, true)
    }),
    /** The host cannot change the flags of an open file: only the flags that are already set are accepted. */
    fd_fdstat_set_flags: wasiFunction((fd: number, flags: number) => {
      if (table.get(fd).flags !== (flags & ~NONBLOCK)) throw new WasiError('ENOTSUP')
    }),
    fd_fdstat_set_rights: wasiFunction((fd: number, _rights: bigint, _inherited: bigint) => {
      table.get(fd)
      throw new WasiError('ENOTSUP')
    }),
    fd_filestat_get: wasiFunction((fd: number, result: number) => {
      const file = table.get(fd)
      writeFilestat(memory, result, file.filetype, file.stat())
    }),
    fd_filestat_set_size: wasiFunction((fd: number, size: bigint) =>
      table.get(fd).truncate(toPosition(size)),
    ),
    fd_filestat_set_times: wasiFunction((fd: number, atime: bigint, mtime: bigint, flags: number) => {
      const file = table.get(fd)
      const stat = file.stat()
      if (!stat) throw new WasiError('EBADF')
      file.setTimes(...newTimes(stat, atime, mtime, flags))
    }),
    fd_advise: wasiFunction((fd: number, _offset: bigint, _length: bigint, advice: number) => {
      if (advice >>> 0 > MAX_ADVICE) throw new WasiError('EINVAL')
      table.get(fd).advise()
    }),
    fd_allocate: wasiFunction((fd: number, _offset: bigint, _length: bigint) => {
      table.get(fd)
      throw new WasiError('ENOTSUP') // Node has no fallocate
    }),
    fd_sync: wasiFunction((fd: number) => table.get(fd).sync()),
    fd_datasync: wasiFunction((fd: number) => table.get(fd).sync()),
  }
}

function toPosition(offset: bigint): number {
  const position = Number(BigInt.asUintN(64, offset))
  if (!Number.isSafeInteger(position)) throw new WasiError('EINVAL')
  return position
}

/** The bit of `lookupflags`. */
const FOLLOW = 1

/** Bits of `oflags`. */
const CREATE = 1
const DIRECTORY = 2
const EXCLUSIVE = 4
const TRUNCATE = 8

/** The supported bits of `fdflags` when a file is opened. */
const OPEN_FLAGS = APPEND | NONBLOCK

const DIRENT_SIZE = 24

/** `path_*`, `fd_prestat_*` and `fd_readdir`: operations on folders. */
export function openFolderFunctions(memory: GuestMemory, table: DescriptorTable) {
  function folder(fd: number): Folder {
    const descriptor = table.get(fd)
    if (!(descriptor instanceof Folder)) throw new WasiError('ENOTDIR')
    return descriptor
  }

  function guestName(fd: number): Buffer {
    const descriptor = table.get(fd)
    if (!(descriptor instanceof Folder) || descriptor.guestName === undefined) throw new WasiError('EBADF')
    return Buffer.from(descriptor.guestName)
  }

  return {
    fd_prestat_get: wasiFunction((fd: number, result: number) => {
      const { length } = guestName(fd)
      const at = memory.locate(result, 8)
      memory.view.setUint32(at, 0, true)
      memory.view.setUint32(at + 4, length, true)
    }),
    fd_prestat_dir_name: wasiFunction((fd: number, target: number, size: number) => {
      const name = guestName(fd)
      if (size >>> 0 < name.length) throw new WasiError('ENAMETOOLONG')
      name.copy(memory.span(target, size))
    }),
    fd_readdir: wasiFunction((fd: number, target: number, size: number, cookie: bigint, result: number) => {
      const opened = folder(fd)
      const buffer = memory.span(target, size)
      const at = memory.locate(result, 4)
      let next = Number(BigInt.asUintN(64, cookie))
      let used = 0
      for (const { name, stat } of opened.entries(next)) {
        if (used === buffer.length) break
        const entry = direntOf(++next, name, stat?.ino ?? 0n, stat ? filetypeOf(stat) : FILETYPE.unknown)
        used += entry.copy(buffer, used)
      }
      memory.view.setUint32(at, used, true)
    }),
    path_open: wasiFunction(
      (
        fd: number,
        lookup: number,
        path: number,
        length: number,
        oflags: number,
        rights: bigint,
        _inherited: bigint,
        fdflags: number,
        result: number,
      ) => {
        const base = folder(fd)
        const name = memory.path(path, length)
        const at = memory.locate(result, 4)
        const request = toRequest(oflags >>> 0, fdflags, rights)
        table.checkRoom()
        const opened = base.open(name, (lookup & FOLLOW) !== 0, request)
        memory.view.setUint32(at, table.add(opened), true)
      },
    ),
    path_filestat_get: wasiFunction(
      (fd: number, lookup: number, path: number, length: number, result: number) => {
        const stat = folder(fd).statPath(memory.path(path, length), (lookup & FOLLOW) !== 0)
        writeFilestat(memory, result, filetypeOf(stat), stat)
      },
    ),
    path_filestat_set_times: wasiFunction(
      (
        fd: number,
        lookup: number,
        path: number,
        length: number,
        atime: bigint,
        mtime: bigint,
        flags: number,
      ) => {
        const name = memory.path(path, length)
        folder(fd).setPathTimes(name, (lookup & FOLLOW) !== 0, atime, mtime, flags)
      },
    ),
    path_create_directory: wasiFunction((fd: number, path: number, length: number) =>
      folder(fd).createDirectory(memory.path(path, length)),
    ),
    path_remove_directory: wasiFunction((fd: number, path: number, length: number) =>
      folder(fd).removeDirectory(memory.path(path, length)),
    ),
    path_unlink_file: wasiFunction((fd: number, path: number, length: number) =>
      folder(fd).unlink(memory.path(path, length)),
    ),
    path_rename: wasiFunction(
      (fd: number, path: number, length: number, newFd: number, newPath: number, newLength: number) =>
        folder(fd).rename(memory.path(path, length), folder(newFd), memory.path(newPath, newLength)),
    ),
    path_link: wasiFunction(
      (
        fd: number,
        lookup: number,
        path: number,
        length: number,
        newFd: number,
        newPath: number,
        newLength: number,
      ) => {
        const name = memory.path(path, length)
        const newName = memory.path(newPath, newLength)
        folder(fd).link(name, (lookup & FOLLOW) !== 0, folder(newFd), newName)
      },
    ),
    path_symlink: wasiFunction(
      (target: number, targetLength: number, fd: number, path: number, length: number) =>
        folder(fd).symlink(memory.path(target, targetLength), memory.path(path, length)),
    ),
    path_readlink: wasiFunction(
      (fd: number, path: number, length: number, target: number, size: number, result: number) => {
        const text = Buffer.from(folder(fd).readlink(memory.path(path, length)))
        const at = memory.locate(result, 4)
        memory.view.setUint32(at, text.copy(memory.span(target, size)), true)
      },
    ),
  }
}

function toRequest(oflags: number, fdflags: number, rights: bigint): OpenRequest {
  if (oflags > 15 || (oflags & CREATE && oflags & DIRECTORY)) throw new WasiError('EINVAL')
  if (fdflags & ~OPEN_FLAGS) throw new WasiError('ENOTSUP')
  return {
    directory: (oflags & DIRECTORY) !== 0,
    create: (oflags & CREATE) !== 0,
    exclusive: (oflags & CREATE) !== 0 && (oflags & EXCLUSIVE) !== 0,
    truncate: (oflags & TRUNCATE) !== 0,
    append: (fdflags & APPEND) !== 0,
    read: (rights & RIGHT_READ) !== 0n,
    write: (rights & RIGHT_WRITE) !== 0n,
  }
}

/** A directory entry in WASI's format: the number of the next one, the inode, and the name with its length. */
function direntOf(next: number, name: string, inode: bigint, filetype: number): Buffer {
  const nameLength = Buffer.byteLength(name)
  const entry = Buffer.alloc(DIRENT_SIZE + nameLength)
  entry.writeBigUInt64LE(BigInt(next), 0)
  entry.writeBigUInt64LE(inode, 8)
  entry.writeUInt32LE(nameLength, 16)
  entry.writeUInt8(filetype, 20)
  entry.write(name, DIRENT_SIZE)
  return entry
}
