import { expect, onTestFinished, test } from 'vitest'
import { createServer, type RouteOptions } from '../../src/index.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { listen, listenAll } from '../support/serve.ts'
import { openSocket } from '../support/web-socket.ts'

const ENGINES = ['inline', 'workers', 'subprocess'] as const

test.each(ENGINES)('an exit status is the return code of a function (%s)', async (engine) => {
  const route = { plugin: guest('exit'), engine, workers: engine === 'inline' ? 0 : 1 }
  const app = await createServer({
    logLevel: 'silent',
    routes: [
      { ...route, url: '/run', function: 'run' },
      { ...route, url: '/fail', function: 'fail' },
    ],
  })
  onTestFinished(() => app.close())
  const ask = async (url: string, payload: string) => {
    const { statusCode, body } = await app.inject({ method: 'POST', url, payload })
    return [statusCode, body]
  }
  expect(await ask('/run', '')).toEqual([200, '1'])
  expect(await ask('/run', '0')).toEqual([200, '2'])
  expect(await ask('/run', '3')).toEqual([409, 'The guest function "run" exited with status 3'])
  expect(await ask('/run', '')).toEqual([200, '1'])
  expect(await ask('/fail', 'its error')).toEqual([409, 'its error'])
})

/** Sends a piece, and exits with what its name says. */
const STREAMS = guestBytes(`(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "wasm-serve:http" "response_start" (func $start (param i64) (result i64)))
  (import "wasm-serve:http" "response_write" (func $write (param i64) (result i64)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $send (local $at i64)
    (drop (call $start (i64.const 0)))
    (local.set $at (call $alloc (i64.const 1)))
    (call $store (local.get $at) (i32.const 65))
    (drop (call $write (local.get $at))))
  (func (export "well") (call $send) (call $exit (i32.const 0)))
  (func (export "ill") (call $send) (call $exit (i32.const 3))))`)

test('a guest that streams ends its answer with exit(0), and breaks it off with another status', async () => {
  const route = { plugin: STREAMS, workers: 1, spareWorkers: 0 } as const
  const routes: RouteOptions[] = [
    { ...route, url: '/well', function: 'well' },
    { ...route, url: '/ill', function: 'ill' },
  ]
  const { port } = await listenAll(routes)
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' })
  for (let i = 0; i < 3; i++) {
    expect(await (await ask('/well')).text()).toBe('A')
    await expect((await ask('/ill')).text()).rejects.toThrow('terminated')
  }
})

test('a message to a guest that exits with 0 is answered', async () => {
  const { port } = await listen({ plugin: guest('exit'), function: 'run', contract: 'websocket' })
  const { socket, next } = await openSocket(port)
  for (const message of ['', '0', '']) socket.send(message)
  expect([await next(), await next(), await next()]).toEqual(['1', '2', '1'])
})
