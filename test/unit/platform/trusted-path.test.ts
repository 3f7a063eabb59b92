import {
  chmodSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { problemWithPath } from '../../../src/platform/trusted-path.ts'

/** A folder of ours, in the folder for temporary files, where everybody may make some. */
function ours(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'wasm-serve-trust-')))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

function folderIn(parent: string, name: string, mode = 0o700): string {
  const path = join(parent, name)
  mkdirSync(path)
  chmodSync(path, mode) // whatever the umask is
  return path
}

function fileIn(parent: string, name: string, mode = 0o600): string {
  const path = join(parent, name)
  writeFileSync(path, 'x')
  chmodSync(path, mode)
  return path
}

function linkIn(parent: string, name: string, to: string): string {
  symlinkSync(to, join(parent, name))
  return join(parent, name)
}

test.each([0o700, 0o755, 0o500, 0o750])('a folder of ours with mode %o is ours to trust', (mode) => {
  expect(problemWithPath(folderIn(ours(), 'a', mode))).toBeUndefined()
})

test.each([
  0o777, 0o770, 0o722, 0o720, 0o702, 0o1777, 0o2770,
])('a folder into which others may write (%o) is not, and the reason says what to do', (mode) => {
  const path = folderIn(ours(), 'a', mode)
  expect(problemWithPath(path)).toContain(`chmod 700 ${path}`)
})

test.each([0o666, 0o660, 0o620, 0o602, 0o622])('nor is a file into which others may write (%o)', (mode) => {
  const path = fileIn(ours(), 'a', mode)
  expect(problemWithPath(path)).toContain(`chmod 600 ${path}`)
})

test('a file that others may only read is', () => {
  expect(problemWithPath(fileIn(ours(), 'a', 0o644))).toBeUndefined()
})

test('what is not there yet is as good as the folders around it', () => {
  const folder = ours()
  expect(problemWithPath(join(folder, 'a', 'b'))).toBeUndefined()
  const open = folderIn(folder, 'open', 0o777)
  expect(problemWithPath(join(open, 'a', 'b'))).toContain(`chmod go-w ${open}`)
})

test.each([0o777, 0o770, 0o2775])('a folder around it (%o) in which others could exchange it', (mode) => {
  const around = folderIn(ours(), 'around', mode)
  const path = folderIn(around, 'a')
  expect(problemWithPath(path)).toContain(`chmod go-w ${around}`)
  expect(problemWithPath(fileIn(path, 'file'))).toContain(`chmod go-w ${around}`)
})

test('a folder around it where everybody may make files, and change none of others, is no problem', () => {
  const around = folderIn(ours(), 'around', 0o1777)
  expect(problemWithPath(folderIn(around, 'a'))).toBeUndefined()
  expect(problemWithPath(join(around, 'not there'))).toBeUndefined()
})

/** Gives it to another user, where the test may. @returns whom to look with: for whom it is another's. */
function given(path: string): number {
  const uid = process.geteuid?.() ?? 0
  if (uid === 0) lchownSync(path, 4_711, 4_711)
  return uid === 0 ? 0 : 4_711
}

test('what belongs to another user is refused: a folder, a file, a folder around it, a link', () => {
  const folder = ours()
  const theirs = folderIn(folder, 'theirs')
  const within = fileIn(theirs, 'a')
  expect(problemWithPath(within, given(theirs))).toContain('another user')
  expect(problemWithPath(theirs, given(theirs))).toContain('another user')
  const file = fileIn(folder, 'file')
  expect(problemWithPath(file, given(file))).toContain('another user')
  const link = linkIn(folder, 'link', folderIn(folder, 'good'))
  expect(problemWithPath(link, given(link))).toContain('another user')
})

test('what belongs to root is as good as one’s own', () => {
  expect(problemWithPath('/', 4_711)).toBeUndefined()
})

test('a link leads to what it names, which is looked at with all that is around it', () => {
  const folder = ours()
  const good = folderIn(folder, 'good')
  expect(problemWithPath(linkIn(folder, 'to-good', good))).toBeUndefined()
  expect(problemWithPath(linkIn(folder, 'to-good-too', 'good/../good/.'))).toBeUndefined()
  const open = folderIn(folder, 'open', 0o777)
  const inOpen = folderIn(open, 'a')
  expect(problemWithPath(linkIn(folder, 'to-open', inOpen))).toContain(`chmod go-w ${open}`)
  expect(problemWithPath(join(linkIn(folder, 'around', 'open'), 'a'))).toContain(`chmod go-w ${open}`)
  expect(problemWithPath(join(linkIn(folder, 'chain', 'around'), 'a', 'b'))).toContain(`chmod go-w ${open}`)
  const wide = folderIn(folder, 'wide', 0o777)
  expect(problemWithPath(linkIn(folder, 'to-wide', 'wide'))).toContain(`chmod 700 ${wide}`)
})

test('links that lead in a circle are refused', () => {
  const folder = ours()
  linkIn(folder, 'a', 'b')
  linkIn(folder, 'b', 'a')
  expect(problemWithPath(join(folder, 'a'))).toContain('links')
})

test('a relative path is one from the working folder', () => {
  expect(problemWithPath('not-there')).toBe(problemWithPath(join(process.cwd(), 'not-there')))
})

test.runIf(process.platform === 'linux')('what belongs to root is to be trusted by each user', () => {
  expect(problemWithPath('/usr/bin', 12_345)).toBeUndefined()
})

test('a path may lead through as many links as in Linux', () => {
  const folder = ours()
  let path = fileIn(folder, 'file')
  for (let link = 1; link <= 40; link++) path = linkIn(folder, `link${link}`, path)
  expect(problemWithPath(path)).toBeUndefined()
  expect(problemWithPath(linkIn(folder, 'link41', path))).toContain('more than 40 links')
})
