import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { newFolder } from '../support/stores.ts'
import { readStormValue } from '../support/storm.ts'

const bytes = (text: string) => new Uint8Array(Buffer.from(text))
const text = (value: Uint8Array | undefined) => value && Buffer.from(value).toString()

/** A process that writes until it is killed. */
interface Writer {
  readonly process: ChildProcess
  /** Acknowledged so far. */
  readonly numbers: number[]
  readonly counted: () => number
  /** Waits until it has had so many more writes acknowledged. */
  more(count: number): Promise<void>
  /** Kills it with SIGKILL, and reads what it still had to say. */
  kill(): Promise<void>
}

function startWriter(folder: string, id: string, first = 0): Writer {
  const script = new URL('../support/lmdb-writer.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--import', 'tsx', script, folder, id, String(first)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const numbers: number[] = []
  let counted = 0
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => {
    if (line === 'c') counted++
    else numbers.push(Number(line.slice(2)))
  })
  return {
    process: child,
    numbers,
    counted: () => counted,
    async more(count) {
      const goal = numbers.length + count
      await new Promise<void>((resolve, reject) => {
        const onEnd = () => reject(new Error('the writer ended'))
        const onLine = () => {
          if (numbers.length < goal) return
          lines.off('line', onLine)
          lines.off('close', onEnd)
          resolve()
        }
        lines.on('line', onLine)
        lines.once('close', onEnd)
      })
    },
    async kill() {
      const closed = once(lines, 'close')
      child.kill('SIGKILL')
      await closed
    },
  }
}

/** Checks that all that the writer was told is written is there, and nothing is torn. */
async function expectAll(folder: string, id: string, numbers: readonly number[]): Promise<void> {
  const store = await openLmdbStore({ folder })
  for (const number of numbers) {
    const value = await store.get('storm', `${id} ${number}`)
    if (!value) throw new Error(`write ${number} was acknowledged, and is lost`)
    expect(readStormValue(id, value)).toBe(number)
  }
  let cursor: string | undefined
  do {
    const page = await store.list('storm', `${id} `, 1_000, cursor)
    for (const key of page.keys) readStormValue(id, (await store.get('storm', key)) ?? new Uint8Array())
    cursor = page.cursor
  } while (cursor !== undefined)
  await store.close()
}

describe('the lmdb store', () => {
  test('keeps every write that it acknowledged, whole, when its process is killed', async () => {
    const folder = newFolder()
    const numbers: number[] = []
    for (let round = 0; round < 3; round++) {
      const writer = startWriter(folder, 'a', round * 1_000_000)
      await writer.more(20 + Math.floor(Math.random() * 100))
      await writer.kill()
      numbers.push(...writer.numbers)
      await expectAll(folder, 'a', numbers)
    }
  }, 60_000)

  test('is shared by processes, and goes on in one when the other is killed', async () => {
    const folder = newFolder()
    const [one, two] = [startWriter(folder, 'one'), startWriter(folder, 'two')]
    await Promise.all([one.more(20), two.more(20)])
    await one.kill()
    await two.more(20)
    await two.kill()
    await expectAll(folder, 'one', one.numbers)
    await expectAll(folder, 'two', two.numbers)
    const store = await openLmdbStore({ folder })
    onTestFinished(() => store.close())
    const count = Number(text(await store.get('storm', 'count')))
    const told = one.counted() + two.counted()
    expect(count).toBeGreaterThanOrEqual(told)
    expect(count).toBeLessThanOrEqual(told + 2) // each may have been killed before it said so
  }, 60_000)

  test('shows what another process has written', async () => {
    const folder = newFolder()
    const store = await openLmdbStore({ folder })
    onTestFinished(() => store.close())
    expect(await store.get('storm', 'w last')).toBe(undefined)
    const writer = startWriter(folder, 'w')
    for (let i = 0; i < 5; i++) {
      await writer.more(3)
      const latest = Math.max(...writer.numbers) - 3 // three write at a time, in no order
      const value = await store.get('storm', 'w last')
      expect(readStormValue('w', value ?? new Uint8Array())).toBeGreaterThanOrEqual(latest - 3)
    }
    await writer.kill()
  })

  test('has what was written when it is opened again, and what expired meanwhile is gone', async () => {
    const folder = newFolder()
    let time = 1_000_000
    const first = await openLmdbStore({ folder, now: () => time })
    await first.set('n', 'stays', bytes('x'))
    await first.set('n', 'goes', bytes('x'), { ttlMs: 100 })
    await first.close()
    time += 100
    const second = await openLmdbStore({ folder, now: () => time })
    onTestFinished(() => second.close())
    expect(await second.list('n', '', 10)).toEqual({ keys: ['stays'] })
    expect(text(await second.get('n', 'stays'))).toBe('x')
  })

  test('can be opened several times by one process', async () => {
    const folder = newFolder()
    const [one, two] = [await openLmdbStore({ folder }), await openLmdbStore({ folder })]
    await one.set('n', 'k', bytes('x'))
    expect(text(await two.get('n', 'k'))).toBe('x')
    await one.close()
    await two.set('n', 'k', bytes('y'))
    expect(text(await two.get('n', 'k'))).toBe('y')
    await two.close()
  })

  test('ends what was begun when it is closed, and refuses what comes later', async () => {
    const folder = newFolder()
    const store = await openLmdbStore({ folder })
    const writing = store.set('n', 'k', bytes('x'))
    await store.close()
    await writing
    const later = async () => store.get('n', 'k')
    await expect(later()).rejects.toMatchObject({ code: 'WASM_SERVE_STORE_UNAVAILABLE' })
    await expect(store.set('n', 'k', bytes('y'))).rejects.toMatchObject({
      code: 'WASM_SERVE_STORE_UNAVAILABLE',
    })
    const again = await openLmdbStore({ folder })
    onTestFinished(() => again.close())
    expect(text(await again.get('n', 'k'))).toBe('x')
  })

  test('survives a full disk, and takes writes again when there is room', async () => {
    const script = new URL('../support/lmdb-full.ts', import.meta.url).pathname
    const command = `ulimit -f 4096 && exec "$@"` // no file may be larger than 4 MiB
    const args = ['-c', command, 'bash', process.execPath, '--import', 'tsx', script, newFolder()]
    const child = spawn('bash', args, { stdio: ['ignore', 'pipe', 'ignore'] })
    const said: string[] = []
    createInterface({ input: child.stdout }).on('line', (line) => said.push(line))
    await once(child, 'close')
    expect(said).toEqual(['WASM_SERVE_STORE_FULL', 'kept: true', 'written again: true', 'closed'])
  })

  test('is refused with its reason where the disk has no room for a new one', async () => {
    const script = new URL('../support/lmdb-full.ts', import.meta.url).pathname
    const folder = newFolder()
    const command = `ulimit -f 4 && exec "$@"` // no file may be larger than 4 KiB
    const args = ['-c', command, 'bash', process.execPath, '--import', 'tsx', script, folder]
    const child = spawn('bash', args, { stdio: ['ignore', 'pipe', 'ignore'] })
    const said: string[] = []
    createInterface({ input: child.stdout }).on('line', (line) => said.push(line))
    const [code, signal] = await once(child, 'close')
    expect({ said, code, signal }).toEqual({ said: ['WASM_SERVE_STORE_FULL'], code: 1, signal: null })
    expect(readdirSync(folder)).toEqual([])
    const store = await openLmdbStore({ folder })
    onTestFinished(() => store.close())
    expect(await store.list('n', '', 1)).toEqual({ keys: [] })
  })

  test('says which folder it cannot have', async () => {
    const folder = newFolder()
    const store = await openLmdbStore({ folder })
    await store.close()
    writeFileSync(`${dirname(folder)}/file`, '')
    await expect(openLmdbStore({ folder: `${dirname(folder)}/file` })).rejects.toMatchObject({
      code: 'WASM_SERVE_STORE_INVALID',
      message: expect.stringContaining(`lmdb:${dirname(folder)}/file`),
    })
  })
})
