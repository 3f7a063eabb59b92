import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync, write, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { LineWriter, renderLine } from '../../../src/observe/log/lines.ts'

/** A descriptor whose writes are held until they are answered. */
function openHeld(maxBytes = 1_000) {
  const writes: { readonly text: string; answer(error: string | undefined, written?: number): void }[] = []
  const drops: [number, string][] = []
  const lines = new LineWriter({
    maxBytes,
    write: (bytes, done) => {
      writes.push({
        text: bytes.toString(),
        answer: (code, written = bytes.length) =>
          code === undefined ? done(null, written) : done(Object.assign(new Error(code), { code }), 0),
      })
    },
    writeSync: (bytes) => bytes.length,
    onDropped: (...drop) => drops.push(drop),
  })
  /** The newest write, once it is there. */
  const next = async (count: number) => {
    while (writes.length < count) await new Promise(setImmediate)
    const write = writes[count - 1]
    if (!write) throw new Error('no write')
    return write
  }
  return { lines, next, writes, drops }
}

/** Both ends of a pipe that does not block. */
function openPipe() {
  const path = join(tmpdir(), `wasm-serve-${process.pid}-${Math.random()}`)
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
  onTestFinished(async () => {
    closeSync(writer)
    closeSync(reader)
    await rm(path)
  })
  return { reader, writer }
}

/** Writes to a descriptor until the test ends: after that, its number may be that of another file. */
function writerTo(descriptor: number, maxBytes: number): LineWriter {
  let isOver = false
  onTestFinished(() => {
    isOver = true
  })
  return new LineWriter({
    maxBytes,
    write(bytes, done) {
      if (!isOver) write(descriptor, bytes, done)
    },
    writeSync: (bytes) => writeSync(descriptor, bytes),
  })
}

/** Reads until the writer has no more. */
async function readAll(reader: number, isOver: () => boolean): Promise<string> {
  const buffer = Buffer.alloc(65_536)
  let text = ''
  for (;;) {
    const wasOver = isOver()
    try {
      text += buffer.toString('utf8', 0, readSync(reader, buffer))
    } catch (error) {
      expect(error).toMatchObject({ code: 'EAGAIN' })
      if (wasOver) return text
      await new Promise(setImmediate)
    }
  }
}

test('lines that come while one is written go out together, in their order', async () => {
  const { lines, next } = openHeld()
  for (const line of ['a\n', 'b\n', 'c\n']) lines.write(line)
  const first = await next(1)
  expect(first.text).toBe('a\n')
  first.answer(undefined)
  expect((await next(2)).text).toBe('b\nc\n')
})

test('what was written in part goes on where it stopped, also after a failure', async () => {
  const { lines, next } = openHeld()
  lines.write('abcdef\n')
  ;(await next(1)).answer(undefined, 2)
  ;(await next(2)).answer('ENOSPC')
  const third = await next(3)
  expect(third.text).toBe('cdef\n')
  third.answer(undefined)
  expect(await lines.settled(0)).toBe(true)
})

test('what does not fit is dropped, and counted when there is room again, with the reason', async () => {
  const { lines, next, drops } = openHeld(10)
  for (const line of ['1234\n', '5678\n', 'x\n', 'y\n']) lines.write(line)
  ;(await next(1)).answer('ENOSPC')
  ;(await next(2)).answer(undefined)
  expect(drops).toEqual([[2, 'ENOSPC']])
  lines.write('z\n')
  ;(await next(3)).answer(undefined)
  const last = await next(4)
  expect(last.text).toBe('z\n')
  last.answer(undefined)
  expect(drops).toHaveLength(1)
})

test.each(['ENOSPC', 'EPIPE', 'EIO'])('the end waits for no descriptor that answers %s', async (code) => {
  const { lines, next } = openHeld()
  lines.write('a\n')
  const settled = lines.settled(60_000)
  ;(await next(1)).answer(code)
  expect(await settled).toBe(false)
})

test('the end waits for a reader that is slow, and no longer than it may for one that has stopped', async () => {
  const { reader, writer } = openPipe()
  const lines = writerTo(writer, 10_000_000)
  const line = `${'x'.repeat(999)}\n`
  for (let i = 0; i < 1_000; i++) lines.write(line) // more than a pipe holds
  expect(await lines.settled(20)).toBe(false)
  let isOver = false
  const written = lines.settled(20_000).then((all) => {
    isOver = true
    return all
  })
  expect((await readAll(reader, () => isOver)).length).toBe(1_000_000)
  expect(await written).toBe(true)
})

test('at the exit the rest is written in place, and a reader that has stopped is left', async () => {
  const { reader, writer } = openPipe()
  const lines = writerTo(writer, 10_000_000)
  const line = `${'x'.repeat(999)}\n`
  for (let i = 0; i < 1_000; i++) lines.write(line)
  await lines.settled(20)
  lines.writeRest(20)
  const text = await readAll(reader, () => true)
  expect(text.length).toBeGreaterThan(60_000)
  expect(text.length).toBeLessThan(1_000_000)
})

test.runIf(process.platform === 'linux')('a full disk neither throws nor holds the end', async () => {
  const descriptor = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(descriptor))
  const lines = writerTo(descriptor, 1_000)
  for (let i = 0; i < 1_000; i++) lines.write('a line\n')
  expect(await lines.settled(60_000)).toBe(false)
  lines.writeRest(60_000)
})

test('a line for people has the time, the level, and values that could be misread in quotes', () => {
  const entry = {
    level: 'warn',
    time: '2026-01-02T03:04:05.678Z',
    msg: 'slow',
    url: '/a',
    words: 'a b',
    count: 3,
    none: '',
  }
  expect(renderLine(entry)).toBe('03:04:05 WARN  slow url=/a words="a b" count=3 none=""\n')
  expect(renderLine({ ...entry, level: 'error', err: { stack: 'Error: a\n    at b' } })).toBe(
    '03:04:05 ERROR slow url=/a words="a b" count=3 none=""\nError: a\n    at b\n',
  )
  expect(renderLine({ level: 'warn', time: entry.time, msg: 'slow' }, true)).toContain(
    '\x1b[90m03:04:05\x1b[0m \x1b[33mWARN \x1b[0m slow',
  )
})

test('a write that is not answered for seconds hangs, and none that has just begun or is answered', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { lines, next } = openHeld()
  const hung = [lines.isHung]
  lines.write('a\n')
  const { answer } = await next(1)
  hung.push(lines.isHung)
  vi.advanceTimersByTime(10_000)
  hung.push(lines.isHung)
  answer(undefined)
  hung.push(lines.isHung)
  expect(hung).toEqual([false, false, true, false])
})
