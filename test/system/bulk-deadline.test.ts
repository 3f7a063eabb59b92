import { expect, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'

const PAGES = 1_000
const BYTES = PAGES * 65_536
const ENTRIES = 900_000

/** Bulk instructions, with a length of `$n` percent of what is possible. */
const INSTRUCTIONS = {
  '/fill': bytes((n) => `(memory.fill (i32.const 0) (i32.const 1) ${n})`),
  '/copy': entries((n) => `(table.copy $a $b (i32.const 0) (i32.const 0) ${n})`),
  '/constant': `(if (local.get $n) (then (memory.fill (i32.const 0) (i32.const 1) (i32.const ${BYTES}))))`,
  // Short ones of tables take as long as large ones of memories.
  '/entries': `(if (local.get $n) (then (table.copy $a $b (i32.const 0) (i32.const 0) (i32.const 4096))))`,
  '/functions': `(if (local.get $n) (then (table.fill $a (i32.const 0) (ref.func $none) (i32.const 4096))))`,
} as const

function bytes(fill: (length: string) => string): string {
  return fill(`(i32.mul (local.get $n) (i32.const ${Math.floor((BYTES - 8) / 100)}))`)
}

function entries(fill: (length: string) => string): string {
  return fill(`(i32.mul (local.get $n) (i32.const ${ENTRIES / 100}))`)
}

/**
 * A guest whose `run` never ends.
 *
 * @param turns - How often the instruction runs before, without work: V8 optimises what runs often.
 */
function endless(instruction: string, turns: { readonly inItsFunction: number; readonly inAnother: number }) {
  const loop = `(loop $l ${instruction} (local.set $k (i32.sub (local.get $k) (i32.const 1))) (br_if $l (local.get $k)))`
  return guestBytes(`(module (memory ${PAGES}) (table $a ${ENTRIES / 2} funcref) (table $b ${ENTRIES / 2} funcref)
    (func $none) (elem declare func $none) (elem $b (i32.const 0) $none $none)
    (func $loop (param $n i32) (param $k i32) ${loop})
    (func $other (param $n i32) (param $k i32) ${loop})
    (func (export "run") (result i32) (local $i i32)
      (call $other (i32.const 0) (i32.const ${turns.inAnother}))
      (local.set $i (i32.const ${turns.inItsFunction}))
      (loop $l (call $loop (i32.const 0) (i32.const 5))
        (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $l (i32.gt_s (local.get $i) (i32.const 0))))
      (call $loop (i32.const 50) (i32.const 0)) (i32.const 0)))`)
}

const HISTORIES = {
  'at once': { inItsFunction: 1, inAnother: 1 },
  'once others made V8 optimise its check': { inItsFunction: 1, inAnother: 30_000_000 },
  'once V8 optimised its function': { inItsFunction: 3_000_000, inAnother: 1 },
} as const

test.each(
  Object.entries(HISTORIES),
)('threads in endless loops of bulk instructions, entered %s, end at their deadlines', async (_, turns) => {
  const routes = Object.entries(INSTRUCTIONS).map(([url, instruction]) => ({
    url,
    plugin: file(`endless-${url.slice(1)}.wasm`, endless(instruction, turns)),
    timeoutMs: 1_000,
  }))
  const calm = guestBytes('(module (func (export "run") (result i32) (i32.const 0)))')
  const all = [...routes, { url: '/calm', plugin: file('calm.wasm', calm), timeoutMs: 20_000 }]
  const config = file('bulk.json', JSON.stringify({ defaults: { workers: 1 }, routes: all }))
  const server = start(['-c', config, '--port', '0'])
  const url = await server.listening()
  const post = async (path: string) => {
    const answer = await fetch(url + path, { method: 'POST', body: 'x' })
    return [answer.status, answer.ok ? undefined : ((await answer.json()) as { code: string }).code]
  }
  // Two stuck threads would make the third call a 503.
  for (const { url } of routes)
    for (let call = 0; call < 3; call++)
      expect([url, ...(await post(url))]).toEqual([url, 504, 'WASM_SERVE_DEADLINE_EXCEEDED'])
  expect(await post('/calm')).toEqual([200, undefined])
})
