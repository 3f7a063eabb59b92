import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FD_FOLDER } from '../../../src/platform/descriptors.ts'
import { MAX_DESCRIPTORS } from '../../../src/runtime/wasi/descriptor.ts'
import { MAX_MOVED_ENTRIES, MAX_PATH_DEPTH } from '../../../src/runtime/wasi/folder.ts'
import { openWasi } from '../../../src/runtime/wasi/wasi.ts'
import { errnoName, OPEN, openGuest, RIGHTS } from '../../support/wasi.ts'

const { create, directory, exclusive, truncate } = OPEN
const { read: READ, write: WRITE } = RIGHTS

const NO_PROC = '/no/such/folder'

/** `box` is the guest's folder; nothing beside it may be seen or changed. */
function makeBox() {
  const root = fs.mkdtempSync(join(fs.realpathSync(tmpdir()), 'wasi-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const box = join(root, 'box')
  fs.mkdirSync(join(box, 'sub/deep'), { recursive: true })
  fs.mkdirSync(join(root, 'outside/inner'), { recursive: true })
  fs.writeFileSync(join(root, 'secret.txt'), 'SECRET')
  fs.writeFileSync(join(root, 'outside/secret.txt'), 'SECRET')
  fs.writeFileSync(join(box, 'file.txt'), 'hello')
  fs.writeFileSync(join(box, 'sub/inner.txt'), 'inner')
  return {
    root,
    box,
    host: (name: string) => join(box, name),
    text: (name: string) => readText(join(box, name)),
  }
}

function openBox({ readOnly = false, fdFolder = FD_FOLDER } = {}) {
  const made = makeBox()
  const allowedPaths = [{ guest: '/data', host: made.box, readOnly }]
  return { ...made, ...openGuest({ allowedPaths }, fdFolder) }
}

const readText = (path: string) => fs.readFileSync(path, 'utf8')

test('a guest finds its folder at 3, by the name that it was given, and no other', () => {
  const { wasi, bytes } = openBox()
  expect(wasi.imports.fd_prestat_get(3, 0)).toBe(0)
  expect([bytes().readUInt32LE(0), bytes().readUInt32LE(4)]).toEqual([0, 5])
  expect(errnoName(wasi.imports.fd_prestat_dir_name(3, 100, 4))).toBe('ENAMETOOLONG')
  expect(wasi.imports.fd_prestat_dir_name(3, 100, 5)).toBe(0)
  expect(bytes().toString('utf8', 100, 105)).toBe('/data')
  expect(errnoName(wasi.imports.fd_prestat_get(4, 0))).toBe('EBADF')
})

test('a folder that does not exist is an error at once, and leaves none open', () => {
  const { box, root } = makeBox()
  const before = countFds()
  const allowedPaths = [box, join(root, 'missing')].map((host) => ({ guest: '/', host, readOnly: true }))
  expect(() => openWasi({ allowedPaths, writeLine: () => undefined })).toThrow('ENOENT')
  expect(countFds()).toBe(before)
})

describe.each([
  ['by descriptor', FD_FOLDER],
  ['by path', NO_PROC],
])('files, %s', (_name, fdFolder) => {
  test('are read, from where the last read stopped or from anywhere', () => {
    const { wasi, bytes, open, read, pread, seek } = openBox({ fdFolder })
    const fd = open('file.txt')
    expect(read(fd, 3)).toBe('hel')
    expect(pread(fd, 2, 1n)).toBe('el')
    expect(read(fd, 10)).toBe('lo')
    expect(read(fd)).toBe('')
    expect(seek(fd, 1n, 0)).toBe(1)
    expect([wasi.imports.fd_tell(Number(fd), 0), bytes().readBigUInt64LE(0)]).toEqual([0, 1n])
    expect(seek(fd, -1n, 2)).toBe(4)
    expect(seek(fd, -2n, 1)).toBe(2)
    expect(read(fd)).toBe('llo')
    expect(seek(fd, -6n, 1)).toBe('EINVAL')
    expect(seek(fd, 0n, 3)).toBe('EINVAL')
    expect(seek(fd, 2n ** 62n, 0)).toBe('EINVAL')
    expect(pread(fd, 1, 2n ** 63n)).toBe('EINVAL')
    expect(open('sub/../sub/./inner.txt')).not.toBe('ENOENT')
    expect(open('nothing.txt')).toBe('ENOENT')
    expect(open('file.txt/x')).toBe('ENOTDIR')
    expect(open('file.txt/')).toBe('ENOTDIR')
    expect(open('')).toBe('ENOENT')
  })

  test('are made, written, cut and stretched', () => {
    const { wasi, open, read, write, pwrite, seek, fdStat, text } = openBox({ fdFolder })
    const fd = Number(open('new.txt', { oflags: create | exclusive, rights: READ | WRITE }))
    expect(write(fd, 'abc')).toBe(3)
    expect(write(fd, 'def')).toBe(3)
    expect(pwrite(fd, 'X', 1n)).toBe(1)
    expect(text('new.txt')).toBe('aXcdef')
    expect(wasi.imports.fd_filestat_set_size(fd, 2n)).toBe(0)
    expect(seek(fd, 0n, 0)).toBe(0)
    expect(read(fd)).toBe('aX')
    expect(wasi.imports.fd_filestat_set_size(fd, 4n)).toBe(0)
    expect(fdStat(fd)).toMatchObject({ filetype: 4, size: 4, nlink: 1 })
    expect(wasi.imports.fd_sync(fd)).toBe(0)
    expect(wasi.imports.fd_datasync(fd)).toBe(0)
    expect(wasi.imports.fd_advise(fd, 0n, 0n, 1)).toBe(0)
    expect(errnoName(wasi.imports.fd_advise(fd, 0n, 0n, 6))).toBe('EINVAL')
    expect(open('new.txt', { oflags: create | exclusive, rights: WRITE })).toBe('EEXIST')
    expect(open('new.txt', { oflags: create | directory })).toBe('EINVAL')
    expect(open('new.txt', { fdflags: 2 })).toBe('ENOTSUP')
    open('new.txt', { oflags: truncate, rights: WRITE })
    expect(text('new.txt')).toBe('')
  })

  test('do no more than they were opened for', () => {
    const { wasi, open, read, write } = openBox({ fdFolder })
    const input = Number(open('file.txt', { rights: READ }))
    const output = Number(open('file.txt', { rights: WRITE }))
    expect(write(input, 'x')).toBe('EBADF')
    expect(errnoName(wasi.imports.fd_filestat_set_size(input, 0n))).toBe('EINVAL')
    expect(read(output)).toBe('EBADF')
  })

  test('opened to append are written at their end only', () => {
    const { wasi, open, write, bytes, host, text } = openBox({ fdFolder })
    const fd = Number(open('file.txt', { rights: WRITE, fdflags: 1 }))
    write(fd, ' one')
    fs.appendFileSync(host('file.txt'), ' two')
    write(fd, ' three')
    expect(text('file.txt')).toBe('hello one two three')
    expect(wasi.imports.fd_fdstat_get(fd, 0)).toBe(0)
    expect([bytes()[0], bytes()[2]]).toEqual([4, 1])
    expect(wasi.imports.fd_fdstat_set_flags(fd, 1)).toBe(0)
    expect(errnoName(wasi.imports.fd_fdstat_set_flags(fd, 0))).toBe('ENOTSUP')
  })

  test('larger than a chunk are read and written whole', () => {
    const { wasi, open, memory, bytes, host } = openBox({ fdFolder })
    memory.grow(48)
    const size = 2_500_000
    const content = Buffer.alloc(size, 'abcdefg')
    const fd = Number(open('big', { oflags: create, rights: READ | WRITE }))
    bytes().set(content, 65_536)
    bytes().writeUInt32LE(65_536, 0)
    bytes().writeUInt32LE(size, 4)
    expect(wasi.imports.fd_write(fd, 0, 1, 8)).toBe(0)
    expect(bytes().readUInt32LE(8)).toBe(size)
    expect(fs.readFileSync(host('big')).equals(content)).toBe(true)
    bytes().fill(0, 65_536)
    expect(wasi.imports.fd_pread(fd, 0, 1, 0n, 8)).toBe(0)
    expect(
      bytes()
        .subarray(65_536, 65_536 + size)
        .equals(content),
    ).toBe(true)
  })

  test('are renamed, linked, removed and described', () => {
    const { rename, link, unlink, rmdir, mkdir, stat, setTimes, text, host } = openBox({ fdFolder })
    expect(rename('file.txt', 'sub/moved.txt')).toBe('SUCCESS')
    expect(text('sub/moved.txt')).toBe('hello')
    expect(rename('sub/moved.txt', 'x/')).toBe('ENOTDIR')
    expect(rename('missing', 'x')).toBe('ENOENT')
    expect(link('sub/moved.txt', 'again.txt')).toBe('SUCCESS')
    expect(stat('again.txt')).toMatchObject({ nlink: 2, size: 5, filetype: 4 })
    expect(link('sub', 'folder')).toBe('EPERM')
    expect(setTimes('again.txt')).toBe('SUCCESS')
    expect(stat('sub/moved.txt')).toMatchObject({ mtime: 5_000_000_000n })
    expect(unlink('again.txt')).toBe('SUCCESS')
    expect(unlink('again.txt')).toBe('ENOENT')
    expect(unlink('sub')).toBe('EISDIR')
    expect(unlink('sub/moved.txt/')).toBe('ENOTDIR')
    expect(mkdir('made')).toBe('SUCCESS')
    expect(mkdir('made')).toBe('EEXIST')
    expect(stat('made/')).toMatchObject({ filetype: 3 })
    expect(rmdir('made/')).toBe('SUCCESS')
    expect(rmdir('sub')).toBe('ENOTEMPTY')
    expect(rmdir('sub/moved.txt')).toBe('ENOTDIR')
    expect(rmdir('.')).not.toBe('SUCCESS')
    expect(fs.existsSync(host('sub/moved.txt'))).toBe(true)
  })

  test('are not opened through a file: folders are opened as folders', () => {
    const { open, read, write, wasi, fdStat } = openBox({ fdFolder })
    const sub = Number(open('sub', { oflags: directory }))
    expect(fdStat(sub)).toMatchObject({ filetype: 3 })
    expect(open('inner.txt', { from: sub })).toBe(5)
    expect(open('inner.txt', { from: 5 })).toBe('ENOTDIR')
    expect(read(sub)).toBe('EBADF')
    expect(write(sub, 'x')).toBe('EBADF')
    expect(open('sub', { rights: WRITE })).toBe('EISDIR')
    expect(open('sub', { oflags: create })).toBe('EISDIR')
    expect(open('file.txt', { oflags: directory })).toBe('ENOTDIR')
    expect(wasi.imports.fd_sync(sub)).toBe(0)
    expect(open('.')).toBe(6)
    expect(errnoName(wasi.imports.fd_prestat_get(sub, 0))).toBe('EBADF')
  })

  test('links that stay inside are followed, read and made', () => {
    const { open, read, symlink, readlink, stat, text, host } = openBox({ fdFolder })
    fs.symlinkSync('../file.txt', host('sub/up'))
    expect(symlink('deep/../inner.txt', 'sub/around')).toBe('ENOTCAPABLE')
    expect(symlink('./deep/', 'sub/down')).toBe('SUCCESS')
    expect(symlink('..a/b..', 'sub/dots')).toBe('SUCCESS')
    expect(symlink('sub', 'folder')).toBe('SUCCESS')
    fs.symlinkSync('.', host('here'))
    expect(read(open('folder/up'))).toBe('hello')
    expect(read(open('here/here/sub/inner.txt'))).toBe('inner')
    expect(stat('sub/up')).toMatchObject({ filetype: 4, size: 5 })
    expect(stat('sub/up', false)).toMatchObject({ filetype: 7 })
    expect(open('sub/up', { follow: false })).toBe('ELOOP')
    expect(readlink('sub/up')).toBe('../file.txt')
    expect(readlink('sub/up', 4)).toBe('../f')
    expect(readlink('file.txt')).toBe('EINVAL')
    symlink('new.txt', 'dangling')
    expect(open('dangling', { oflags: create, rights: WRITE })).not.toBe('ENOENT')
    expect(text('new.txt')).toBe('')
  })

  test('links in a circle are ELOOP', () => {
    const { open, symlink, stat } = openBox({ fdFolder })
    symlink('b', 'a')
    symlink('a', 'b')
    symlink('self/x', 'self')
    for (const name of ['a', 'a/x', 'self']) expect(open(name)).toBe('ELOOP')
    expect(stat('a')).toBe('ELOOP')
  })

  describe('lead nowhere else:', () => {
    const links: [name: string, target: (root: string) => string][] = [
      ['to-file', (root) => join(root, 'secret.txt')],
      ['up-file', () => '../secret.txt'],
      ['sub/up-file', () => '../../secret.txt'],
      ['to-folder', (root) => join(root, 'outside')],
      ['up-folder', () => '../outside'],
      ['twice', () => 'sub/up-file'],
      ['around', () => 'sub/../../secret.txt'],
      ['proc', () => '/proc/self/cwd'],
      ['root', (root) => root],
      ['parent', () => '..'],
      ['inside', (root) => join(root, 'box/file.txt')],
    ]
    const attempts = `
      ../secret.txt sub/../../secret.txt ./../secret.txt sub/deep/../../../secret.txt .. sub/../..
      ROOT/secret.txt /ROOT/secret.txt ROOT / /data/file.txt ../box/../secret.txt ../box/file.txt
      to-file up-file sub/up-file twice around proc root parent inside to-file/ to-folder to-folder/
      to-folder/secret.txt up-folder/secret.txt up-folder/inner/../secret.txt up-folder/inner
      to-folder/. to-folder/.. root/secret.txt parent/secret.txt parent/box/file.txt proc/x
      missing/../../secret.txt`

    test.each(attempts.trim().split(/\s+/))('%s', (pattern) => {
      const opened = openBox({ fdFolder })
      const attempt = pattern.replace('ROOT', opened.root)
      for (const [name, target] of links) fs.symlinkSync(target(opened.root), opened.host(name))
      const { root, open, stat, setTimes, mkdir, rmdir, unlink, rename, link, symlink, write } = opened
      const before = snapshot(root)
      const refused = expect.stringMatching(/^(ENOTCAPABLE|ELOOP|ENOENT)$/)

      for (const oflags of [0, directory, truncate, create, create | exclusive, create | truncate]) {
        for (const rights of [READ, WRITE, READ | WRITE]) {
          const fd = open(attempt, { oflags, rights })
          if (create & oflags && exclusive & oflags) expect(fd).toMatch(/^(ENOTCAPABLE|EEXIST|ENOENT)$/)
          else expect(fd).toEqual(refused)
          expect(open(attempt, { oflags, rights, follow: false })).toMatch(/^E/)
          expect(write(fd, 'PWNED')).toBe('EBADF')
        }
      }
      expect(stat(attempt)).toEqual(refused)
      expect(setTimes(attempt, true)).toEqual(refused)
      expect(link(attempt, 'stolen', true)).toEqual(refused)
      expect(mkdir(`${attempt}/made`)).toEqual(refused)
      expect(symlink('file.txt', `${attempt}/made`)).toEqual(refused)
      expect(rename('file.txt', `${attempt}/made`)).toEqual(refused)
      expect(rename(`${attempt}/secret.txt`, 'stolen')).toEqual(refused)
      expect(unlink(`${attempt}/secret.txt`)).toEqual(refused)
      expect(rmdir(`${attempt}/inner`)).toEqual(refused)
      expect(snapshot(root)).toEqual(before)

      const ends = [mkdir(attempt), link(attempt, 'stolen'), rename(attempt, 'moved'), unlink(attempt)]
      for (const answer of ends) expect(answer).toMatch(/^(SUCCESS|E\w+)$/) // on the link itself they may succeed
      expect(readText(join(root, 'secret.txt'))).toBe('SECRET')
      expect(fs.readdirSync(root).sort()).toEqual(['box', 'outside', 'secret.txt'])
      expect(fs.readdirSync(join(root, 'outside')).sort()).toEqual(['inner', 'secret.txt'])
    })

    test('not by a link that the guest makes', () => {
      const { root, symlink, open, wasi, named, otherNamed } = openBox({ fdFolder })
      const targets = `/etc/passwd ../secret.txt .. sub/../.. x/../../y ../x ./.. sub/deep/.. . ./. ./ ${join(root, 'box')} // /.`
      for (const target of targets.split(' ')) {
        for (const name of ['evil', 'sub/evil', 'sub/deep/evil']) {
          expect([target, symlink(target, name)]).toEqual([target, 'ENOTCAPABLE'])
        }
      }
      expect(symlink('x', '../evil')).toBe('ENOTCAPABLE')
      const sub = Number(open('sub', { oflags: directory }))
      expect(open('../file.txt', { from: sub })).toBe('ENOTCAPABLE')
      expect(errnoName(wasi.imports.path_symlink(...named('..'), sub, ...otherNamed('evil2')))).toBe(
        'ENOTCAPABLE',
      )
    })

    describe('not by a rename', () => {
      /** Made by the operator. All but the last few stay inside where they are. */
      function openLinks() {
        const opened = openBox({ fdFolder })
        fs.mkdirSync(opened.host('a/b/c/d'), { recursive: true })
        fs.mkdirSync(opened.host('other'))
        const links = {
          ...{ 'a/b/c/one': '../x', 'a/b/c/two': '../../x', 'a/b/c/d/three': '../../../x' },
          ...{ 'sub/deep/round': 'y/../../../x', 'sub/up': '..' },
        }
        for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, opened.host(name))
        return opened
      }

      test.each([
        ['a link', 'a/b/c/one'],
        ['a link that leads further up', 'a/b/c/two'],
        ['the folder of a link', 'a/b/c'],
        ['a folder around it', 'a/b'],
        ['a folder by another name', 'a/./b/'],
        ['a folder whose link leads to its own', 'a/b/c/d'],
        ['a link that goes down first', 'sub/deep/round'],
        ['the folder around that', 'sub'],
      ])('of %s: %s', (_name, from) => {
        const { root, rename, host, open } = openLinks()
        const before = snapshot(root)
        for (const to of ['moved', 'other/moved', 'other', `${from.replace(/\/$/, '')}2`]) {
          expect(rename(from, to)).toBe('ENOTCAPABLE')
        }
        const fd = Number(open('a/b', { oflags: directory }))
        expect(rename('c', 'moved', fd, 3)).toBe('ENOTCAPABLE')
        expect(snapshot(root)).toEqual(before)
        expect(fs.existsSync(host('moved'))).toBe(false)
      })

      test('of an absolute link, and of a folder around it, however deep', () => {
        const { root, rename, host } = openLinks()
        fs.symlinkSync(join(root, 'box/file.txt'), host('other/absolute'))
        fs.mkdirSync(host('p/q/r/s'), { recursive: true })
        fs.symlinkSync('/proc/self/cwd', host('p/q/r/s/absolute'))
        for (const from of ['other/absolute', 'other', 'p/q/r/s/absolute', 'p/q/r/s', 'p/q/r', 'p/q', 'p']) {
          expect([from, rename(from, 'moved')]).toEqual([from, 'ENOTCAPABLE'])
        }
      })

      test('into another folder of the guest, whatever its depth', () => {
        const { box, root } = makeBox()
        fs.mkdirSync(join(root, 'outside/p/q'), { recursive: true })
        const allowedPaths = [box, join(root, 'outside/p')].map((host) => ({
          guest: '/',
          host,
          readOnly: false,
        }))
        const { rename, link } = openGuest({ allowedPaths }, fdFolder)
        fs.symlinkSync('../../file.txt', join(box, 'sub/deep/up'))
        fs.symlinkSync('..', join(root, 'outside/p/q/up'))
        for (const [from, fd, newFd] of [
          ['sub/deep/up', 3, 4],
          ['sub/deep', 3, 4],
          ['sub', 3, 4],
          ['q/up', 4, 3],
          ['q', 4, 3],
        ] as const) {
          expect([from, rename(from, 'moved', fd, newFd)]).toEqual([from, 'ENOTCAPABLE'])
          expect(link(from, 'linked', false, fd, newFd)).toBe('EPERM')
        }
      })

      test('but what stays inside is moved: files, and folders whose links do not lead out of them', () => {
        const { rename, symlink, open, read, mkdir, text, link, host } = openLinks()
        fs.writeFileSync(host('a/x'), 'beside') // all links below `a` lead here, wherever it is
        expect(rename('a', 'other/a')).toBe('SUCCESS')
        expect(read(open('other/a/b/c/d/three'))).toBe('beside')
        expect(rename('other/a', 'a')).toBe('SUCCESS')
        expect(mkdir('new')).toBe('SUCCESS')
        expect(symlink('inner.txt', 'sub/down')).toBe('SUCCESS')
        expect(link('sub/down', 'linked')).toBe('EPERM')
        expect(rename('sub/down', 'new/down')).toBe('SUCCESS')
        expect(rename('sub/inner.txt', 'new/inner.txt')).toBe('SUCCESS')
        expect(rename('new', 'a/b/c/new')).toBe('SUCCESS')
        expect(read(open('a/b/c/new/down'))).toBe('inner')
        expect(rename('file.txt', 'a/b/c/new/inner.txt')).toBe('SUCCESS')
        expect(text('a/b/c/new/down')).toBe('hello')
      })
    })

    test('not by a link that takes the place of an open folder', () => {
      const { root, host, open, readdir, mkdir } = openBox({ fdFolder })
      const sub = Number(open('sub', { oflags: directory }))
      fs.renameSync(host('sub'), host('moved'))
      fs.symlinkSync('../outside', host('sub'))
      expect(open('secret.txt', { from: sub })).toMatch(/^(ENOENT|ENOTCAPABLE)$/)
      expect(mkdir('sub/x')).toBe('ENOTCAPABLE')
      if (fdFolder === FD_FOLDER) expect(readdir(sub).names.sort()).toEqual(['deep', 'inner.txt'])
      else expect(() => readdir(sub)).toThrow('ENOTCAPABLE')
      expect(fs.readdirSync(join(root, 'outside')).sort()).toEqual(['inner', 'secret.txt'])
    })
  })

  test('in a read-only folder are read, and nothing changes', () => {
    const guest = openBox({ readOnly: true, fdFolder })
    const { wasi, root, host, open, read, write, mkdir, rmdir, unlink, rename, symlink, link, setTimes } =
      guest
    fs.mkdirSync(host('empty'))
    const before = snapshot(root)
    const fd = Number(open('file.txt'))
    expect(read(fd)).toBe('hello')
    const folder = Number(open('sub', { oflags: directory, rights: READ | WRITE }))
    const answers = [
      open('file.txt', { rights: WRITE }),
      open('file.txt', { rights: READ | WRITE }),
      open('file.txt', { oflags: truncate }),
      open('new.txt', { oflags: create }),
      open('inner.txt', { from: folder, rights: WRITE }),
      mkdir('new'),
      rmdir('empty'),
      unlink('file.txt'),
      rename('file.txt', 'other'),
      symlink('file.txt', 'other'),
      link('file.txt', 'other'),
      setTimes('file.txt'),
      errnoName(wasi.imports.fd_filestat_set_times(fd, 0n, 0n, 4)),
      errnoName(wasi.imports.fd_filestat_set_times(folder, 0n, 0n, 4)),
      errnoName(wasi.imports.fd_filestat_set_times(3, 0n, 0n, 4)),
    ]
    expect(new Set(answers)).toEqual(new Set(['EROFS']))
    expect(write(fd, 'x')).toBe('EBADF')
    expect(errnoName(wasi.imports.fd_filestat_set_size(fd, 0n))).toBe('EINVAL')
    expect(snapshot(root)).toEqual(before)
  })

  test.skipIf(process.platform === 'win32')('that are no files neither block nor open', () => {
    const { open, stat, host } = openBox({ fdFolder })
    execFileSync('mkfifo', [host('fifo')])
    fs.symlinkSync('fifo', host('to-fifo'))
    const before = performance.now()
    for (const name of ['fifo', 'to-fifo']) {
      for (const rights of [READ, WRITE, READ | WRITE]) expect(open(name, { rights })).toBe('EACCES')
    }
    expect(open('fifo', { oflags: truncate, rights: WRITE })).toBe('EACCES')
    expect(stat('fifo')).toMatchObject({ filetype: 0 })
    expect(performance.now() - before).toBeLessThan(1_000)
  })

  test('are listed page by page, each once', () => {
    const { open, readdir, host, wasi } = openBox({ fdFolder })
    const wanted = Array.from({ length: 200 }, (_, index) => `${'n'.repeat(index % 60)}${index}-ü`)
    fs.mkdirSync(host('many'))
    for (const name of wanted) fs.writeFileSync(host(`many/${name}`), '')
    const fd = Number(open('many', { oflags: directory }))
    for (const size of [100, 101, 250, 4_096, 65_536]) {
      const found: string[] = []
      for (let cookie = 0n, isLast = false; !isLast; ) {
        const page = readdir(fd, size, cookie)
        found.push(...page.names)
        cookie = page.names.length > 0 ? page.cookie : cookie
        isLast = page.isLast
      }
      expect(found.sort()).toEqual([...wanted].sort())
    }
    expect(readdir(fd, 4_096, 2n ** 64n - 1n).names).toEqual([])
    expect(readdir(fd, 10).names).toEqual([]) // too small for one: the guest asks again with more room
    fs.writeFileSync(host('many/later'), '')
    expect(readdir(fd, 65_536).names).toContain('later')
    expect(errnoName(wasi.imports.fd_readdir(fd, -1, 10, 0n, 0))).toBe('EFAULT')
  })

  test('are at most as many as a guest may have open, and all are closed', () => {
    const before = countFds()
    const { wasi, open, close } = openBox({ fdFolder })
    const opened = Array.from({ length: MAX_DESCRIPTORS - 4 }, () => open('file.txt'))
    expect(opened.at(-1)).toBe(MAX_DESCRIPTORS - 1)
    expect(open('file.txt')).toBe('EMFILE')
    expect(open('made-although-full', { oflags: create, rights: WRITE })).toBe('EMFILE')
    expect(open('sub')).toBe('EMFILE')
    expect(close(9)).toBe('SUCCESS')
    expect(open('sub/inner.txt')).toBe(9)
    expect(wasi.imports.fd_renumber(9, 8)).toBe(0)
    wasi.close()
    expect(countFds()).toBe(before)
    expect(open('file.txt')).toBe('EBADF')
    wasi.close()
  })

  test('that are refused leave nothing open', () => {
    const { open, stat, host } = openBox({ fdFolder })
    execFileSync('mkfifo', [host('fifo')])
    fs.symlinkSync('../../secret.txt', host('sub/deep/evil'))
    const before = countFds()
    for (const name of ['sub/deep/evil', 'sub/deep/../../..', 'sub/none/x', 'fifo', 'sub/deep/x']) open(name)
    stat('sub/deep/../inner.txt')
    expect(countFds()).toBe(before)
  })

  test('paths that are too long, too deep or no text are errors', () => {
    const { open, mkdir } = openBox({ fdFolder })
    expect(open('x'.repeat(256))).toBe('ENAMETOOLONG')
    expect(open('x/'.repeat(4_000))).toBe('ENAMETOOLONG')
    expect(open('a\0b')).toBe('EILSEQ')
    expect(open(Buffer.from([0xff, 0xfe]))).toBe('EILSEQ')
    let path = 'd'
    for (; mkdir(path) === 'SUCCESS'; path += '/d');
    expect(mkdir(path)).toBe('ENAMETOOLONG')
    expect(path.length).toBe(131)
  })
})

test('a folder with more entries, or deeper, than are looked at is not renamed: programs copy it instead', () => {
  const { rename, host } = openBox()
  for (const folder of ['full', 'over']) fs.mkdirSync(host(folder))
  for (let index = 0; index <= MAX_MOVED_ENTRIES; index++) {
    fs.linkSync(host('file.txt'), host(`over/${index}`))
    if (index > 0) fs.linkSync(host('file.txt'), host(`full/${index}`))
  }
  expect(rename('full', 'moved')).toBe('SUCCESS')
  expect(rename('over', 'moved2')).toBe('EXDEV')
  const deep = Array(MAX_PATH_DEPTH).fill('d')
  fs.mkdirSync(host(`least/${deep.slice(1).join('/')}`), { recursive: true })
  fs.mkdirSync(host(`most/${deep.join('/')}`), { recursive: true })
  expect(rename('least', 'moved3')).toBe('SUCCESS')
  expect(rename('most', 'moved4')).toBe('EXDEV')
})

test.runIf(fs.existsSync(FD_FOLDER))(
  'a folder that is swapped for a link meanwhile leads nowhere else',
  async () => {
    const { root, host, open, read, write, stat, readdir, close } = openBox()
    fs.writeFileSync(host('sub/secret.txt'), 'decoy')
    const swapper = new Worker(
      `const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
    require('node:worker_threads').parentPort.postMessage('ready')
    const sub = ${JSON.stringify(host('sub'))}
    for (;;) {
      renameSync(sub, sub + '2')
      symlinkSync('../outside', sub)
      unlinkSync(sub)
      renameSync(sub + '2', sub)
    }`,
      { eval: true },
    )
    await once(swapper, 'message')
    const answers = new Map<string | number, number>()
    for (const end = Date.now() + 1_000; Date.now() < end; ) {
      const fd = open('sub/secret.txt', { rights: READ | WRITE })
      const folder = open('sub', { oflags: directory })
      const text = typeof fd === 'number' ? read(fd) : fd
      answers.set(text, (answers.get(text) ?? 0) + 1)
      write(fd, 'decoy')
      if (typeof folder === 'number') expect(readdir(folder).names).not.toContain('inner')
      stat('sub/secret.txt')
      close(fd)
      close(folder)
    }
    await swapper.terminate()
    expect(readText(join(root, 'outside/secret.txt'))).toBe('SECRET')
    expect([...answers.keys()]).not.toContain('SECRET')
    expect(answers.size).toBeGreaterThan(1) // the swapping was seen
  },
)

test('a guest cannot write to a read-only folder by way of a writable one', () => {
  const { root, box } = makeBox()
  const { link, rename } = openGuest({
    allowedPaths: [
      { guest: '/ro', host: box, readOnly: true },
      { guest: '/rw', host: join(root, 'outside'), readOnly: false },
    ],
  })
  expect(link('file.txt', 'mine.txt', false, 3, 4)).toBe('EROFS')
  expect(rename('file.txt', 'mine.txt', 3, 4)).toBe('EROFS')
  expect(rename('secret.txt', 'theirs.txt', 4, 3)).toBe('EROFS')
})

function countFds(): number {
  return fs.existsSync(FD_FOLDER) ? fs.readdirSync(FD_FOLDER).length : 0
}

/** All below a folder: names, contents, targets of links and times of change. */
function snapshot(folder: string): string[] {
  return fs.readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    const stat = fs.lstatSync(path)
    const content = stat.isFile() ? readText(path) : stat.isSymbolicLink() ? fs.readlinkSync(path) : ''
    const below = stat.isDirectory() ? snapshot(path) : []
    return [`${path} ${stat.mtimeMs} ${content}`, ...below]
  })
}
