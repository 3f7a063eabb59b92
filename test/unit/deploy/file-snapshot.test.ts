import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FileSnapshot, printOf, readSettled } from '../../../src/deploy/file-snapshot.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-snapshot-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Writes a file that was changed a minute ago. */
function writeOld(path: string, text: string): string {
  writeFileSync(path, text)
  const before = new Date(Date.now() - 60_000)
  utimesSync(path, before, before)
  return path
}

const forever = new AbortController().signal

test('a file that changes after it was noted has changed, and others have not', () => {
  const folder = newFolder()
  const [one, other] = ['one', 'other'].map((name) => writeOld(join(folder, name), 'a'))
  const files = new FileSnapshot()
  for (const path of [one, other, join(folder, 'absent')]) files.note(path ?? '')
  expect(files.changed()).toEqual([])
  writeFileSync(one ?? '', 'longer')
  files.note(one ?? '') // the first state counts
  writeFileSync(join(folder, 'absent'), 'here')
  expect(files.changed()).toEqual([one, join(folder, 'absent')])
})

test('a digest in a name is no part of the path', () => {
  const path = writeOld(join(newFolder(), 'a.wasm'), 'a')
  const files = new FileSnapshot()
  files.note(`${path}#sha256=00`)
  expect(files.changed()).toEqual([])
  writeFileSync(path, 'other')
  expect(files.changed()).toEqual([path])
})

test('a file is young by its time, also by one that is yet to come; a folder and what is absent are not', () => {
  const folder = newFolder()
  const made = (name: string, seconds: number) => {
    const path = writeOld(join(folder, name), 'a')
    const time = new Date(Date.now() + seconds * 1_000)
    utimesSync(path, time, time)
    return path
  }
  const [young, soon] = [made('young', 0), made('soon', 10)]
  const files = new FileSnapshot()
  for (const path of [made('old', -60), young, soon, made('later', 3_600), folder, join(folder, 'absent')])
    files.note(path)
  expect(files.youngerThan(30_000)).toEqual([young, soon])
  expect(files.youngerThan(0)).toEqual([])
})

test('what was read from files at rest is the result, and so is its failure', async () => {
  const path = writeOld(join(newFolder(), 'a'), 'a')
  const read = async (files: FileSnapshot) => {
    files.note(path)
    return 'read'
  }
  expect(await readSettled(read, forever)).toBe('read')
  const fails = readSettled(async () => Promise.reject(new Error('it cannot be read')), forever)
  await expect(fails).rejects.toThrow('it cannot be read')
})

test('a file that changes while it is read is read again', async () => {
  const path = writeOld(join(newFolder(), 'a'), 'a')
  let reads = 0
  const read = async (files: FileSnapshot) => {
    files.note(path)
    if (++reads === 1) writeOld(path, 'longer')
    return reads
  }
  expect(await readSettled(read, forever)).toBe(2)
})

test('what is read after its end was asked for is no result', async () => {
  const ending = new AbortController()
  const read = async () => {
    ending.abort(new Error('it ends'))
    return 'read'
  }
  await expect(readSettled(read, ending.signal)).rejects.toThrow('it ends')
})

test('the state of a folder is that of its plug-ins, also through links, without hidden files and packages', () => {
  const folder = newFolder()
  for (const name of ['inner', '.hidden', 'node_modules']) {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'a.wasm'), 'a')
  }
  for (const name of ['B.WASM', 'c.ts', 'readme.md', '.d.wasm']) writeFileSync(join(folder, name), 'a')
  symlinkSync(folder, join(folder, 'inner', 'loop'))
  expect(printOf(folder)).toBe(
    ['B.WASM', 'c.ts', 'inner/a.wasm'].map((name) => join(folder, name)).join('\n'),
  )
  expect(printOf(join(folder, 'absent'))).toBe('ENOENT')
})
