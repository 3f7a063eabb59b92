import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, watch } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { listCache, pruneCache, verifyCache } from '../../src/plugin/cache-files.ts'
import { openContentCache } from '../../src/plugin/source/content-cache.ts'
import { describeWith } from '../support/tools.ts'

const WRITER = new URL('../support/cache-writer.ts', import.meta.url).pathname

const MIB = 1_048_576
const DAY = 86_400_000

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-cache-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The command of a writer. */
function writer(folder: string, bytes: number, count?: number): [string, ...string[]] {
  const words = [process.execPath, '--import', 'tsx', WRITER, folder, String(bytes)] as const
  return count === undefined ? [...words] : [...words, String(count)]
}

function start([program, ...args]: readonly [string, ...string[]]): ChildProcess {
  return spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
}

/** Waits for the end of a writer. @returns its output. */
async function linesOf(child: ChildProcess): Promise<string[]> {
  const lines: string[] = []
  if (child.stdout) createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  await once(child, 'close')
  return lines
}

async function expectIntact(folder: string): Promise<void> {
  const files = await listCache(folder)
  expect(await verifyCache(files)).toEqual([])
  const warnings: string[] = []
  const cache = openContentCache(folder, warnings)
  const tag = await cache.tag('registry.example/hello:1')
  expect(tag && (await cache.read(tag.digest))).toBeDefined()
  expect(warnings).toEqual([])
}

test('processes that write the same entries at the same time do not disturb each other', async () => {
  const folder = newFolder()
  const all = await Promise.all([1, 2, 3].map(() => linesOf(start(writer(folder, MIB, 50)))))
  for (const lines of all) {
    expect(lines.length).toBe(51)
    expect(lines.filter((line) => line.endsWith('missing'))).toEqual([])
    expect(lines.at(-1)).toBe('[]')
  }
  expect((await listCache(folder)).filter(({ kind }) => kind === 'leftover')).toEqual([])
  await expectIntact(folder)
}, 60_000)

test('a process that is killed while it writes leaves no damaged entry, and what it leaves is pruned', async () => {
  const folder = newFolder()
  const path = join(folder, 'sha256')
  mkdirSync(path, { mode: 0o700 })
  await linesOf(start(writer(folder, 32 * MIB, 1)))
  for (let round = 0; round < 5; round++) {
    const child = start(writer(folder, 32 * MIB))
    const watcher = watch(path, (_event, name) => {
      if (name?.endsWith('.tmp')) child.kill('SIGKILL')
    })
    await linesOf(child)
    watcher.close()
    await expectIntact(folder)
  }
  const leftovers = (await listCache(folder)).filter(({ kind }) => kind === 'leftover')
  expect(leftovers.length).toBeGreaterThan(0)
  const then = new Date(Date.now() - DAY)
  for (const leftover of leftovers) utimesSync(leftover.path, then, then)
  expect((await pruneCache(await listCache(folder), {})).length).toBe(leftovers.length)
  expect(readdirSync(path).filter((name) => name.endsWith('.tmp'))).toEqual([])
}, 60_000)

describeWith(['mounts'], () => {
  test('on a full disk each write is a warning, leaves nothing, and what was written stays', async () => {
    const folder = newFolder()
    const script = 'mount -t tmpfs -o size=256k,mode=700 tmpfs "$1" && shift && "$@" && ls -R "$0"'
    const command = writer(folder, 100_000, 5)
    const lines = await linesOf(start(['unshare', '--mount', 'sh', '-c', script, folder, folder, ...command]))
    expect(lines.slice(0, 5)).toEqual(['0 found', '1 found', '2 missing', '3 missing', '4 missing'])
    const warnings: string[] = JSON.parse(lines[5] ?? '[]')
    expect(warnings.length).toBeGreaterThan(0)
    expect(warnings.filter((warning) => !warning.includes('ENOSPC'))).toEqual([])
    expect(lines.filter((line) => line.endsWith('.tmp'))).toEqual([])
  }, 30_000)
})
