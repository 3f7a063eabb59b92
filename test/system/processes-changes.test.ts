import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startApi, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { childrenOf, linesOf, until } from '../support/processes.ts'

/** A guest that answers its input with a sign before it. */
function signing(sign: string): Uint8Array {
  return guestBytes(`(module
    (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
    (import "extism:host/env" "input_length" (func $input_length (result i64)))
    (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (func (export "sign") (result i32) (local $at i64) (local $length i64) (local $i i64)
      (local.set $length (call $input_length))
      (local.set $at (call $alloc (i64.add (local.get $length) (i64.const 1))))
      (call $store_u8 (local.get $at) (i32.const ${sign.charCodeAt(0)}))
      (block $end (loop $next
        (br_if $end (i64.ge_u (local.get $i) (local.get $length)))
        (call $store_u8 (i64.add (local.get $at) (i64.add (local.get $i) (i64.const 1)))
          (call $input_load_u8 (local.get $i)))
        (local.set $i (i64.add (local.get $i) (i64.const 1)))
        (br $next)))
      (call $output_set (local.get $at) (i64.add (local.get $length) (i64.const 1)))
      (i32.const 0)))`)
}

/** A server with processes and a plug-in that signs with \`a\`; and a load on it that notes when each sign was seen. */
async function startSigning(...flags: string[]) {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'sign.wasm'), signing('a'))
  const args = ['sign.wasm', '--processes', '3', ...flags]
  const server = await startApi(start, args, cwd)
  const seen: { readonly sign: string; readonly begunAt: number; readonly endedAt: number }[] = []
  const load = startLoad({
    url: server.url,
    connections: 30,
    isAnswer: (answer, sent) => answer.slice(1) === sent,
    onAnswer({ body }, _sent, ms) {
      const endedAt = performance.now()
      seen.push({ sign: body.slice(0, 1), begunAt: endedAt - ms, endedAt })
    },
  })
  onTestFinished(async () => void (await load.stop()))
  await load.answered(500)
  const pids = () => childrenOf(server.child.pid ?? 0)
  return { ...server, cwd, load, seen, pids, lines: (message: string) => linesOf(server, message) }
}

const LOSSLESS = { wrong: 0, non2xx: 0, resets: 0, refused: 0 }

test('clients meet the old and the new state no longer than the commit takes', async () => {
  const { api, load, seen, lines } = await startSigning()
  for (const [round, sign] of ['b', 'c', 'd', 'e', 'f'].entries()) {
    const begun = performance.now()
    const { status } = await api('PUT', '/api/plugins/sign', signing(sign))
    const answered = performance.now()
    expect(status).toBe(200)
    await load.answered(200)

    const mine = seen.filter(({ endedAt }) => endedAt >= begun)
    const firstNew = Math.min(...mine.filter((each) => each.sign === sign).map(({ endedAt }) => endedAt))
    const lastOld = Math.max(...mine.filter((each) => each.sign !== sign).map(({ begunAt }) => begunAt))
    const commitMs = Number(lines('committed by all processes')[round]?.ms)
    // A request that a process answers with the old state was sent before that process committed.
    expect(lastOld - firstNew).toBeLessThanOrEqual(commitMs)
    expect(lastOld).toBeLessThan(answered)
  }
  expect(await load.stop()).toMatchObject(LOSSLESS)
})

test('a change that a process cannot prepare is made by none', async () => {
  const { api, load, seen, pids } = await startSigning()
  const before = pids()
  const { status, body } = await api('PUT', '/api/plugins/sign', readFileSync(guest('bad-start')))
  expect([status, body.code]).toEqual([422, 'WASM_SERVE_INSTANCE_START_FAILED'])
  await load.answered(300)
  expect(new Set(seen.map(({ sign }) => sign))).toEqual(new Set(['a']))
  expect(pids()).toEqual(before)
  expect((await api('PUT', '/api/plugins/sign', signing('b'))).status).toBe(200)
  await load.answered(300)
  expect(seen.at(-1)?.sign).toBe('b')
  expect(await load.stop()).toMatchObject(LOSSLESS)
})

test('a process that takes the place of another serves what the admin API has changed', async () => {
  const { api, load, seen, pids, lines } = await startSigning()
  expect((await api('PUT', '/api/plugins/sign', signing('b'))).status).toBe(200)
  const added = await api('POST', '/api/routes', { plugin: 'sign', url: '/more' })
  expect(added.status).toBe(201)
  for (const [index, pid] of pids().entries()) {
    process.kill(pid, 'SIGKILL')
    await until(() => lines('a serving process was started').length === index + 1)
  }
  const from = performance.now()
  await load.answered(300)
  const signs = seen.filter(({ begunAt }) => begunAt > from).map(({ sign }) => sign)
  expect(new Set(signs)).toEqual(new Set(['b']))
})

test('changes while processes are killed leave all processes with one state', async () => {
  const { api, load, seen, pids, lines } = await startSigning()
  let last = 'a'
  for (const sign of ['b', 'c', 'd', 'e']) {
    const before = lines('a serving process was lost').length
    const changing = api('PUT', '/api/plugins/sign', signing(sign))
    process.kill(pids()[0] ?? 0, 'SIGKILL')
    const { status, body } = await changing
    if (status === 200) last = sign
    else expect([status, body.code]).toEqual([503, 'WASM_SERVE_PROCESS_ENDED'])
    await until(() => lines('a serving process was lost').length === before + 1)
    await until(() => lines('a serving process was started').length === before + 1)
    const from = performance.now()
    await load.answered(200)
    const signs = seen.filter(({ begunAt }) => begunAt > from).map((each) => each.sign)
    expect(new Set(signs)).toEqual(new Set([last]))
  }
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, refused: 0 })
})

test('a state folder belongs to the primary, and its edits are served by all processes', async () => {
  const cwd = temporaryFolder()
  const state = join(cwd, 'state')
  const first = await startSigning('--state', state)
  expect((await first.api('PUT', '/api/plugins/sign', signing('z'))).status).toBe(200)
  await first.load.stop()
  first.kill('SIGTERM')
  expect(await first.ended).toMatchObject({ code: 0 })
  const second = await startApi(
    start,
    [join(first.cwd, 'sign.wasm'), '--processes', '2', '--state', state],
    cwd,
  )
  expect(await second.post('/', 'abc')).toEqual([200, 'zabc'])
})
