import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RIGHT_READ, RIGHT_WRITE } from '../../../src/runtime/wasi/descriptor.ts'
import { WasiError, wasiFunction } from '../../../src/runtime/wasi/errno.ts'
import { openGuest } from '../../support/wasi.ts'

/*
 * The numbers of WASI preview 1, in the order of its specification:
 * https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/docs.md
 */

const ERRNO =
  `success 2big acces addrinuse addrnotavail afnosupport again already badf badmsg busy canceled child
  connaborted connrefused connreset deadlk destaddrreq dom dquot exist fault fbig hostunreach idrm ilseq inprogress
  intr inval io isconn isdir loop mfile mlink msgsize multihop nametoolong netdown netreset netunreach nfile nobufs
  nodev noent noexec nolck nolink nomem nomsg noprotoopt nospc nosys notconn notdir notempty notrecoverable notsock
  notsup notty nxio overflow ownerdead perm pipe proto protonosupport prototype range rofs spipe srch stale timedout
  txtbsy xdev notcapable`.split(/\s+/)

const RIGHTS = `fd_datasync fd_read fd_seek fd_fdstat_set_flags fd_sync fd_tell fd_write fd_advise fd_allocate
  path_create_directory path_create_file path_link_source path_link_target path_open fd_readdir path_readlink
  path_rename_source path_rename_target path_filestat_get path_filestat_set_size path_filestat_set_times
  fd_filestat_get fd_filestat_set_size fd_filestat_set_times path_symlink path_remove_directory path_unlink_file
  poll_fd_readwrite sock_shutdown sock_accept`.split(/\s+/)

const FILETYPES =
  'unknown block_device character_device directory regular_file socket_dgram socket_stream symbolic_link'.split(
    ' ',
  )

describe('the number of an error', () => {
  const returned = (error: unknown) =>
    wasiFunction(() => {
      throw error
    })()
  const ofSystem = (code: string) => Object.assign(new Error(code), { code, syscall: 'open' })

  test.each(
    ERRNO.slice(1).map((name, place) => [`E${name.toUpperCase()}`, place + 1] as const),
  )('%s is %i', (name, number) => {
    expect(returned(ofSystem(name))).toBe(number)
  })

  test('is 0 if there is none, and that of our own errors', () => {
    expect(wasiFunction(() => undefined)()).toBe(0)
    expect(returned(new WasiError('EBADF'))).toBe(ERRNO.indexOf('badf'))
  })

  test('is EIO if WASI has none, and ENOTSUP by its other name', () => {
    expect(returned(ofSystem('EUNHEARDOF'))).toBe(ERRNO.indexOf('io'))
    expect(returned(ofSystem('EOPNOTSUPP'))).toBe(ERRNO.indexOf('notsup'))
  })

  test.each([
    ['a bug', new TypeError('a bug')],
    ['an error of Node.js', Object.assign(new Error('no'), { code: 'ERR_INVALID_ARG_TYPE' })],
    ['an error without a code', Object.assign(new Error('no'), { syscall: 'open' })],
    ['no error', { code: 'EIO', syscall: 'open' }],
  ])('is not that of %s, which is thrown', (_, thrown) => {
    let caught: unknown
    try {
      returned(thrown)
    } catch (error) {
      caught = error
    }
    expect(caught).toBe(thrown)
  })
})

describe('rights and types', () => {
  const FILE = ['fd_seek', 'fd_tell', 'fd_advise', 'fd_filestat_get', 'fd_sync', 'poll_fd_readwrite']
  const FOLDER = [
    'path_open',
    'fd_readdir',
    'path_readlink',
    'path_filestat_get',
    'fd_filestat_get',
    'fd_sync',
  ]
  const CHANGED_FILE = ['fd_datasync', 'fd_filestat_set_size', 'fd_filestat_set_times']
  const CHANGED_FOLDER =
    `path_create_directory path_create_file path_link_source path_link_target path_rename_source
    path_rename_target path_filestat_set_size path_symlink path_filestat_set_times fd_filestat_set_times
    path_remove_directory path_unlink_file`.split(/\s+/)

  function openBox(readOnly: boolean) {
    const host = mkdtempSync(join(tmpdir(), 'wasm-serve-wasi-'))
    onTestFinished(() => rmSync(host, { recursive: true }))
    writeFileSync(join(host, 'file'), 'text')
    const guest = openGuest({ allowedPaths: [{ guest: '/', host, readOnly }] })
    return {
      ...guest,
      statOf(fd: number) {
        expect(guest.wasi.imports.fd_fdstat_get(fd, 0)).toBe(0)
        const namesOf = (bits: bigint) => RIGHTS.filter((_, bit) => (bits >> BigInt(bit)) & 1n)
        const [rights, inherited] = [8, 16].map((at) => namesOf(guest.bytes().readBigUInt64LE(at)))
        return { type: FILETYPES[guest.bytes()[0] ?? 0], rights, inherited }
      },
    }
  }

  const sorted = (...names: readonly string[]) => RIGHTS.filter((name) => names.includes(name))

  test('of standard input and output', () => {
    const { statOf } = openBox(true)
    const both = ['fd_filestat_get', 'poll_fd_readwrite']
    const type = 'character_device'
    expect(statOf(0)).toEqual({ type, rights: sorted('fd_read', ...both), inherited: [] })
    for (const fd of [1, 2])
      expect(statOf(fd)).toEqual({ type, rights: sorted('fd_write', ...both), inherited: [] })
  })

  test('of a folder and its files, which can be changed or not', () => {
    const fixed = openBox(true)
    expect(fixed.statOf(3)).toMatchObject({ type: 'directory', rights: sorted(...FOLDER) })
    const read = fixed.statOf(Number(fixed.open('file', { rights: RIGHT_READ })))
    expect(read).toEqual({ type: 'regular_file', rights: sorted(...FILE, 'fd_read'), inherited: [] })

    const { statOf, open } = openBox(false)
    expect(statOf(3)).toMatchObject({ type: 'directory', rights: sorted(...FOLDER, ...CHANGED_FOLDER) })
    const written = statOf(Number(open('file', { rights: RIGHT_WRITE })))
    expect(written).toMatchObject({ rights: sorted(...FILE, ...CHANGED_FILE, 'fd_write') })
  })
})
