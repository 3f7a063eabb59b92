import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { CLI, run, start } from '../support/cli-process.ts'
import { file } from '../support/guest.ts'
import { KEY_LENGTH, kvGuest } from '../support/kv-guest.ts'
import { readPage } from '../support/pages.ts'
import { startRedis } from '../support/redis.ts'
import { newFolder } from '../support/stores.ts'
import { readStormValue, stormValue } from '../support/storm.ts'

const VISITS = fileURLToPath(new URL('../../plugins/visits/visits.wasm', import.meta.url))

async function ask(
  url: string,
  body: string | Uint8Array<ArrayBuffer>,
): Promise<{ status: number; text: string }> {
  const answer = await fetch(url, { method: 'POST', body })
  return { status: answer.status, text: await answer.text() }
}

test('after kill -9 in a storm of requests, all that was answered is there, and whole', async () => {
  const folder = newFolder()
  const plugin = file('writer', kvGuest('set'))
  const acknowledged = new Map<string, number>()
  for (let round = 0; round < 3; round++) {
    const { child, ended, listening } = start([
      plugin,
      'set',
      '0',
      '--workers',
      '2',
      '--store',
      `lmdb:${folder}`,
    ])
    const url = await listening()
    const end = acknowledged.size + 60
    const client = async (id: string) => {
      for (let number = 0; ; number++) {
        const key = `${id}${number}`.padEnd(KEY_LENGTH)
        try {
          const { status } = await ask(url, Buffer.concat([Buffer.from(key), stormValue(id, number)]))
          expect(status).toBe(200)
        } catch (error) {
          if (error instanceof TypeError) return // fetch: the server is gone
          throw error
        }
        acknowledged.set(key, number)
        if (acknowledged.size >= end) child.kill('SIGKILL')
      }
    }
    await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => client(`${letter}${round}_`)))
    expect((await ended).signal).toBe('SIGKILL')
  }
  const store = await openLmdbStore({ folder })
  onTestFinished(() => store.close())
  expect(acknowledged.size).toBeGreaterThanOrEqual(180)
  for (const [key, number] of acknowledged) {
    const value = await store.get('writer', key)
    expect(value && readStormValue(key.slice(0, key.indexOf('_') + 1), value)).toBe(number)
  }
  const { keys } = await store.list('writer', '', 1_000)
  for (const key of keys) {
    const value = await store.get('writer', key)
    readStormValue(key.slice(0, key.indexOf('_') + 1), value ?? new Uint8Array())
  }
})

test('the example of the page counts, and goes on counting after a restart', async () => {
  const page = readPage('docs/write/state.md')
  const example = /^wasm-serve (plugins\/visits\/visits\.wasm) (--store) (lmdb:\S+)$/m.exec(page)
  const asked = /^curl http:\/\/127\.0\.0\.1:8080\/ -d (\w+)\n```\n\n```\n(.+)\n```/m.exec(
    page.slice(example?.index),
  )
  expect([example?.[1], example?.[2], asked?.[2]]).toEqual([
    'plugins/visits/visits.wasm',
    '--store',
    `${asked?.[1]}: 1`,
  ])
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-example-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const args = [VISITS, '0', '--store', example?.[3] ?? '']
  let count = 0
  for (let round = 0; round < 2; round++) {
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    let printed = ''
    for await (const chunk of child.stdout) {
      printed += chunk
      if (printed.includes('Try it')) break
    }
    expect(printed).toContain('1 worker (key-value store)')
    const url = /listens on (\S+)/.exec(printed)?.[1] ?? ''
    for (let i = 0; i < 2; i++) {
      expect(await ask(url, asked?.[1] ?? '')).toEqual({ status: 200, text: `${asked?.[1]}: ${++count}\n` })
    }
    child.kill('SIGKILL')
  }
})

test('no visit is lost where several threads and processes count', async () => {
  const folder = newFolder()
  const args = [VISITS, '0', '--workers', '2', '--timeout', '20000', '--store', `lmdb:${folder}`]
  const servers = [start(args), start(args)]
  const urls = await Promise.all(servers.map(({ listening }) => listening()))
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => ask(urls[i % 2] ?? '', 'Bob')))
  const counts = answers.map(({ text }) => Number(text.split(' ')[1])).sort((a, b) => a - b)
  expect(counts).toEqual(Array.from({ length: 100 }, (_, i) => i + 1))
})

test('a server with a connection to its store ends when it is told to, and when it cannot start', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const store = ['--store', `redis://127.0.0.1:${redis.port}`]
  const { child, ended, listening } = start([VISITS, '0', '--drain-ms', '0', ...store])
  expect((await ask(await listening(), 'Bob')).text).toBe('Bob: 1\n')
  child.kill('SIGTERM')
  expect(await ended).toMatchObject({ code: 0, signal: null })
  const unstarted = await run([VISITS, '0', '--url', '/a*b*', ...store])
  expect([unstarted.code, unstarted.stderr]).toEqual([2, expect.stringContaining('cannot be added')])
})

test('a store that cannot be had is told in words, without its password', async () => {
  const { code, stderr } = await run([VISITS, '0'], { WASM_SERVE_STORE: 'redis://u:secret@127.0.0.1:1' })
  expect(code).toBe(1)
  expect(stderr).toMatch(/^wasm-serve: Store redis:\/\/127\.0\.0\.1:1 cannot be reached: /m)
  expect(stderr).not.toContain('secret')
})

test('a store that is none ends the command with 2', async () => {
  const { code, stderr } = await run([VISITS, '0', '--store', 'file:x'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('--store: must be memory:, lmdb:FOLDER')])
})
