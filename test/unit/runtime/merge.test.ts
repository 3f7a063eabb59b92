import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MERGED_MEMORIES } from '../../../src/module/names.ts'
import { type LoadOptions, loadPlugin } from '../../../src/plugin/plugin.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import type { Instance } from '../../../src/runtime/runtime.ts'
import { guestBytes } from '../../support/guest.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'
import { linkedPlugin, openLinked } from '../../support/linked.ts'
import { runs } from '../../support/runs.ts'

const TWO_MEMORIES = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 5, 2, 0, 0, 0, 0)
const isMergedHere = WebAssembly.validate(TWO_MEMORIES)

const ENV = '"extism:host/env"'
const IMPORTS = `
  (import ${ENV} "alloc" (func $alloc (param i64) (result i64)))
  (import ${ENV} "free" (func $free (param i64)))
  (import ${ENV} "length" (func $length (param i64) (result i64)))
  (import ${ENV} "load_u8" (func $load_u8 (param i64) (result i32)))
  (import ${ENV} "load_u64" (func $load_u64 (param i64) (result i64)))
  (import ${ENV} "store_u8" (func $store_u8 (param i64 i32)))
  (import ${ENV} "store_u64" (func $store_u64 (param i64 i64)))
  (import ${ENV} "input_offset" (func $input_offset (result i64)))
  (import ${ENV} "input_length" (func $input_length (result i64)))
  (import ${ENV} "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import ${ENV} "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
  (import ${ENV} "output_set" (func $output_set (param i64 i64)))`

const caller = { log: keepLog() }

async function openGuest(bytes: Uint8Array, options: LoadOptions = {}): Promise<Instance> {
  return kernel.open(await loadPlugin(bytes, options), settingsOf())
}

/** The output of a call in hex, or the code and reason of its failure. */
async function outcome(instance: Instance, input: Uint8Array, exportName = 'go'): Promise<string> {
  try {
    return Buffer.from(await instance.call(exportName, input, caller)).toString('hex')
  } catch (error) {
    const { code, cause } = error as { code?: string; cause?: { reason?: string } }
    return `${code} ${cause?.reason?.split('\n')[0]}`
  }
}

test('a plug-in says whether the kernel is merged into it, and why not', async () => {
  const hello = fileURLToPath(new URL('../../../plugins/hello/hello.wasm', import.meta.url))
  const { merge } = await loadPlugin(hello)
  expect(merge).toEqual(
    isMergedHere
      ? { isMerged: true, memory: 'own' }
      : { isMerged: false, reason: expect.stringContaining('multi-memory') },
  )
  expect((await loadPlugin(hello, { runtime: 'sdk' })).merge).toBeUndefined()
})

describe.runIf(isMergedHere)('a guest into which the kernel is merged (Node.js with multi-memory)', () => {
  const LOCALS = 4

  const offset = fc.oneof(
    fc.integer({ min: -9, max: 40 }).map(BigInt),
    fc.constantFrom(-1024n, 1024n, 4096n, 65_536n, -(2n ** 63n), 2n ** 32n, 2n ** 32n - 1_040n),
  )
  const local = fc.integer({ min: 0, max: LOCALS - 1 })
  const at = fc
    .tuple(local, offset)
    .map(([place, more]) => `(i64.add (local.get $a${place}) (i64.const ${more}))`)
  const keep = (code: string) => `(local.set $x (i64.add (i64.mul (local.get $x) (i64.const 31)) ${code}))`
  const simple = fc.oneof(
    fc
      .tuple(local, fc.integer({ min: 0, max: 40 }))
      .map(([place, n]) => `(local.set $a${place} (call $alloc (i64.const ${n})))`),
    local.map((place) => `(call $free (local.get $a${place}))`),
    local.map((place) => `(local.set $a${place} (call $input_offset))`),
    fc.constant('(call $free (call $input_offset))'),
    fc.constant('(call $spoil)'),
    at.map((code) => keep(`(i64.extend_i32_u (call $load_u8 ${code}))`)),
    at.map((code) => keep(`(call $load_u64 ${code})`)),
    at.map((code) => keep(`(call $length ${code})`)),
    at.map((code) => `(call $store_u8 ${code} (i32.wrap_i64 (local.get $x)))`),
    at.map((code) => `(call $store_u64 ${code} (local.get $x))`),
    offset.map((n) => keep(`(i64.extend_i32_u (call $input_load_u8 (i64.const ${n})))`)),
    offset.map((n) => keep(`(call $input_load_u64 (i64.const ${n}))`)),
    fc.constant(keep('(call $input_length)')),
  )
  const statement = fc.oneof(
    { weight: 6, arbitrary: simple },
    {
      weight: 1,
      arbitrary: fc.tuple(fc.array(simple, { maxLength: 4 }), fc.integer({ min: 0, max: 9_999 })).map(
        ([body, n]) => `(local.set $i (i32.const 3)) (loop $l${n} ${body.join(' ')}
          (br_if $l${n} (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))`,
      ),
    },
  )

  const programOf = (body: readonly string[]) => `(module ${IMPORTS}
    (memory (export "memory") 1 4)
    (func $spoil (call $free (call $input_offset)))
    (func (export "go") (result i32)
      (local $i i32) (local $x i64) ${Array.from({ length: LOCALS }, (_, place) => `(local $a${place} i64)`).join(' ')}
      ${body.join('\n      ')}
      (local.set $a0 (call $alloc (i64.const 8)))
      (call $store_u64 (local.get $a0) (local.get $x))
      (call $output_set (local.get $a0) (i64.const 8))
      (i32.const 0)))`

  test.each([
    'reuse',
    'fresh',
  ] as const)('random guests do the same merged and linked (%s)', async (isolation) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(statement, { maxLength: 14 }),
        fc.uint8Array({ maxLength: 40 }),
        async (body, input) => {
          const bytes = await guestBytes(programOf(body))
          const [merged, linked] = [
            await openGuest(bytes, { isolation }),
            await openGuest(bytes, { runtime: 'sdk' }),
          ]
          expect(await outcome(merged, input)).toBe(await outcome(linked, input))
          await Promise.all([merged.close(), linked.close()])
        },
      ),
      { numRuns: runs(200) },
    )
  })

  test('input that a called function freed cannot be read, in a loop neither', async () => {
    const once = `(func (export "go") (result i32)
      (drop (call $input_load_u8 (i64.const 0))) (call $spoil) (drop (call $input_load_u8 (i64.const 0))) (i32.const 0))`
    const loop = `(func (export "go") (result i32) (local $i i32)
      (loop $again
        (if (i32.eq (local.get $i) (i32.const 1)) (then (call $spoil)))
        (drop (call $input_load_u64 (i64.const 0)))
        (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
      (i32.const 0))`
    for (const text of [once, loop]) {
      const bytes = guestBytes(`(module ${IMPORTS} (func $spoil (call $free (call $input_offset))) ${text})`)
      expect(await outcome(await openGuest(await bytes), Buffer.alloc(16))).toMatch(/^WASM_SERVE_GUEST_TRAP/)
    }
  })

  test('its own code cannot name the memory of the kernel', async () => {
    const text = `(module ${IMPORTS} (memory 1)
      (func (export "go") (result i32) (drop (call $load_u8 (i64.const 0))) (i32.load8_u offset=7 (i32.const 0))))`
    const bytes = Buffer.from(await guestBytes(text))
    const load = bytes.lastIndexOf(Buffer.of(0x2d, 0, 7)) // i32.load8_u align=0 offset=7
    expect(load).toBeGreaterThan(0)
    const hostile = Buffer.concat([
      bytes.subarray(0, load),
      Buffer.of(0x2d, 0x40, 1, 7),
      bytes.subarray(load + 3),
    ])
    for (const place of sizesBefore(hostile, load)) hostile[place] = (hostile[place] ?? 0) + 1
    await expect(loadPlugin(hostile)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
  })

  test('a namespace of ours among its imports is refused as any unknown import', async () => {
    const text = `(module ${IMPORTS} (import "${MERGED_MEMORIES}" "kernel" (memory 1))
      (func (export "go") (result i32) (call $load_u8 (i64.const 1024))))`
    const plugin = await loadPlugin(await guestBytes(text))
    expect(plugin.merge).toMatchObject({ isMerged: false })
    expect(() => kernel.open(plugin, settingsOf())).toThrow(
      expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING' }),
    )
  })

  test('its memory keeps its limit, its data, and its name', async () => {
    const text = `(module ${IMPORTS} (memory (export "memory") 1) (data (i32.const 8) "A")
      (func (export "go") (result i32) (local $at i64)
        (local.set $at (call $alloc (i64.const 4)))
        (call $store_u8 (local.get $at) (i32.load8_u (i32.const 8)))
        (call $store_u8 (i64.add (local.get $at) (i64.const 1)) (memory.grow (i32.const 2)))
        (call $store_u8 (i64.add (local.get $at) (i64.const 2)) (memory.grow (i32.const 1)))
        (call $store_u8 (i64.add (local.get $at) (i64.const 3)) (memory.size))
        (call $output_set (local.get $at) (i64.const 4))
        (i32.const 0)))`
    for (const isolation of ['reuse', 'fresh'] as const) {
      const instance = await openGuest(await guestBytes(text), { memoryMax: 3, isolation })
      expect(await outcome(instance, new Uint8Array())).toBe('4101ff03')
    }
  })

  test('a start function has the memories and the host', async () => {
    const text = `(module ${IMPORTS} (memory 1) (global $seen (mut i32) (i32.const 0))
      (func $start (local $at i64)
        (local.set $at (call $alloc (i64.const 1)))
        (call $store_u8 (local.get $at) (i32.const 66))
        (global.set $seen (call $load_u8 (local.get $at))))
      (start $start)
      (func (export "go") (result i32) (local $at i64)
        (local.set $at (call $alloc (i64.const 1)))
        (call $store_u8 (local.get $at) (global.get $seen))
        (call $output_set (local.get $at) (i64.const 1)) (i32.const 0)))`
    expect(await outcome(await openGuest(await guestBytes(text)), new Uint8Array())).toBe('42')
  })

  test('modules that share a memory are merged each', async () => {
    const plugin = await linkedPlugin(
      `(module ${IMPORTS} (import "lib" "memory" (memory 1)) (import "lib" "fill" (func $fill (param i64)))
        (func (export "go") (result i32) (local $at i64)
          (local.set $at (call $alloc (i64.const 2)))
          (call $fill (local.get $at))
          (call $store_u8 (i64.add (local.get $at) (i64.const 1)) (i32.load8_u (i32.const 0)))
          (call $output_set (local.get $at) (i64.const 2)) (i32.const 0)))`,
      {
        lib: `(module ${IMPORTS} (memory (export "memory") 1) (data (i32.const 0) "Z")
          (func (export "fill") (param $at i64) (call $store_u8 (local.get $at) (i32.const 89))))`,
      },
    )
    expect([plugin.merge, ...plugin.linked.map(({ merge }) => merge)]).toEqual([
      { isMerged: true, memory: 'own' },
      { isMerged: true, memory: 'own' },
    ])
    expect(await outcome(await openLinked(kernel, plugin), new Uint8Array())).toBe('595a')
  })

  test('a trap names the function of the guest', async () => {
    const text = `(module ${IMPORTS}
      (func $deep (drop (call $load_u8 (i64.const 5)))) (func $go (export "go") (result i32) (call $deep) (i32.const 0)))`
    const instance = await openGuest(await guestBytes(text))
    const failure = await Promise.resolve()
      .then(() => instance.call('go', new Uint8Array(), caller))
      .catch((error: unknown) => error)
    expect(failure).toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
      cause: { reason: 'unreachable', guestStack: ['deep', 'go'] },
    })
  })
})

/** Places of one-byte sizes that a place is in: the code section's and the body's. */
function sizesBefore(bytes: Buffer, place: number): number[] {
  const sections: number[] = []
  for (let at = 8; at < bytes.length; ) {
    const size = bytes[at + 1] ?? 0
    if (bytes[at] === 10) {
      sections.push(at + 1)
      let body = at + 3
      while (body + (bytes[body] ?? 0) < place) body += (bytes[body] ?? 0) + 1
      sections.push(body)
    }
    at += 2 + size
  }
  return sections
}
