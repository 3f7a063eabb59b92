import { ERRNO_NAMES } from '../../src/runtime/wasi/errno.ts'
import type { Wasi } from '../../src/runtime/wasi/wasi.ts'

/* This file imports nothing of Vitest: fuzz targets use it too. */

/** Addresses at which the harness puts arguments and results of a function. */
const AT = { result: 0, list: 128, path: 4_096, otherPath: 12_288, data: 20_480 }

/** The bits of `rights` that say how a file is opened. */
export const RIGHTS = { read: 2n, write: 64n }

export const OPEN = { create: 1, directory: 2, exclusive: 4, truncate: 8 }

interface Opening {
  from?: number
  rights?: bigint
  oflags?: number
  fdflags?: number
  follow?: boolean
}

/** The functions of WASI as a guest without code would call them, each under its own name. Folders default to 3. */
export function wasiCalls(imports: Wasi['imports'], memory: WebAssembly.Memory) {
  const bytes = () => Buffer.from(memory.buffer)
  const result = () => bytes().readUInt32LE(AT.result)

  function put(at: number, content: string | Uint8Array): [pointer: number, length: number] {
    const encoded = Buffer.from(content)
    bytes().set(encoded, at)
    return [at, encoded.length]
  }

  function list(...spans: [pointer: number, length: number][]): [pointer: number, count: number] {
    spans.flat().forEach((value, index) => {
      bytes().writeUInt32LE(value, AT.list + index * 4)
    })
    return [AT.list, spans.length]
  }

  const named = (text: string | Uint8Array) => put(AT.path, text)
  const otherNamed = (text: string) => put(AT.otherPath, text)

  return {
    bytes,
    put,
    named,
    otherNamed,
    /** @returns The new descriptor, or the name of the error. */
    open(name: string | Uint8Array, { from = 3, rights, oflags, fdflags, follow = true }: Opening = {}) {
      const flags = [oflags ?? 0, rights ?? RIGHTS.read, 0n, fdflags ?? 0] as const
      const error = imports.path_open(from, follow ? 1 : 0, ...named(name), ...flags, AT.result)
      return error === 0 ? result() : errnoName(error)
    },
    /** @returns What was read, or the name of the error. */
    read(fd: number | string, length = 1_024) {
      const error = imports.fd_read(Number(fd), ...list([AT.data, length]), AT.result)
      return error === 0 ? bytes().toString('utf8', AT.data, AT.data + result()) : errnoName(error)
    },
    pread(fd: number | string, length: number, offset: bigint) {
      const error = imports.fd_pread(Number(fd), ...list([AT.data, length]), offset, AT.result)
      return error === 0 ? bytes().toString('utf8', AT.data, AT.data + result()) : errnoName(error)
    },
    /** @returns How much was written, or the name of the error. */
    write(fd: number | string, text: string | Uint8Array) {
      const error = imports.fd_write(Number(fd), ...list(put(AT.data, text)), AT.result)
      return error === 0 ? result() : errnoName(error)
    },
    pwrite(fd: number | string, text: string, offset: bigint) {
      const error = imports.fd_pwrite(Number(fd), ...list(put(AT.data, text)), offset, AT.result)
      return error === 0 ? result() : errnoName(error)
    },
    seek(fd: number | string, offset: bigint, whence: number) {
      const error = imports.fd_seek(Number(fd), offset, whence, AT.result)
      return error === 0 ? Number(bytes().readBigUInt64LE(AT.result)) : errnoName(error)
    },
    stat(name: string, follow = true, fd = 3) {
      const error = imports.path_filestat_get(fd, follow ? 1 : 0, ...named(name), AT.result)
      return error === 0 ? filestat(bytes()) : errnoName(error)
    },
    fdStat(fd: number | string) {
      const error = imports.fd_filestat_get(Number(fd), AT.result)
      return error === 0 ? filestat(bytes()) : errnoName(error)
    },
    /** @returns The names of a page of a folder's entries, whole ones only, and the cookie after them. */
    readdir(fd: number | string, size = 4_096, cookie = 0n) {
      const error = imports.fd_readdir(Number(fd), AT.data, size, cookie, AT.result)
      if (error !== 0) throw new Error(errnoName(error))
      return { ...dirents(bytes().subarray(AT.data, AT.data + result())), isLast: result() < size }
    },
    mkdir: (name: string, fd = 3) => errnoName(imports.path_create_directory(fd, ...named(name))),
    rmdir: (name: string, fd = 3) => errnoName(imports.path_remove_directory(fd, ...named(name))),
    unlink: (name: string, fd = 3) => errnoName(imports.path_unlink_file(fd, ...named(name))),
    rename: (from: string, to: string, fd = 3, newFd = 3) =>
      errnoName(imports.path_rename(fd, ...named(from), newFd, ...otherNamed(to))),
    link: (from: string, to: string, follow = false, fd = 3, newFd = 3) =>
      errnoName(imports.path_link(fd, follow ? 1 : 0, ...named(from), newFd, ...otherNamed(to))),
    symlink: (target: string, name: string, fd = 3) =>
      errnoName(imports.path_symlink(...named(target), fd, ...otherNamed(name))),
    readlink(name: string, size = 1_024, fd = 3) {
      const error = imports.path_readlink(fd, ...named(name), AT.data, size, AT.result)
      return error === 0 ? bytes().toString('utf8', AT.data, AT.data + result()) : errnoName(error)
    },
    setTimes: (name: string, follow = false, fd = 3) =>
      errnoName(imports.path_filestat_set_times(fd, follow ? 1 : 0, ...named(name), 0n, 5_000_000_000n, 4)),
    close: (fd: number | string) => errnoName(imports.fd_close(Number(fd))),
  }
}

/** The name of an error's number. */
export function errnoName(number: number): string {
  return ERRNO_NAMES[number] ?? `${number}`
}

function filestat(bytes: Buffer) {
  const at = AT.result
  return {
    ino: bytes.readBigUInt64LE(at + 8),
    filetype: bytes[at + 16],
    nlink: Number(bytes.readBigUInt64LE(at + 24)),
    size: Number(bytes.readBigUInt64LE(at + 32)),
    mtime: bytes.readBigUInt64LE(at + 48),
  }
}

function dirents(page: Buffer) {
  const names: string[] = []
  let cookie = 0n
  for (let at = 0; at + 24 <= page.length; ) {
    const end = at + 24 + page.readUInt32LE(at + 16)
    if (end > page.length) break
    names.push(page.toString('utf8', at + 24, end))
    cookie = page.readBigUInt64LE(at)
    at = end
  }
  return { names, cookie }
}
