import fc from 'fast-check'
import { expect, test } from 'vitest'
import { capMemory } from '../src/plugin/memory-cap.ts'
import { importMemory, MEMORY_IMPORT, type MemoryImporter } from '../src/plugin/memory-import.ts'
import { loadPlugin } from '../src/plugin/plugin.ts'
import { kernel } from '../src/runtime/kernel.ts'
import { guestBytes } from './support/guest.ts'
import { settingsOf } from './support/instance.ts'

const CAP = 60_000

function importing(text: string): MemoryImporter | undefined {
  return importMemory(capMemory(guestBytes(text), CAP, 'test'), 'test')
}

function compile(bytes: Uint8Array): WebAssembly.Module {
  return new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)
}

test('a module that is given its memory has what it would have made: its size, its limit, its data, its export', () => {
  const importer = importing(`(module (memory (export "mine") 2 5) (data (i32.const 8) "data")
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))`)
  if (!importer) throw new Error('not importing')
  expect(importer.limits).toEqual({ initial: 2, maximum: 5 })
  const memory = new WebAssembly.Memory(importer.limits)
  const imports = { [MEMORY_IMPORT.namespace]: { [MEMORY_IMPORT.name]: memory } }
  const { mine, grow } = new WebAssembly.Instance(compile(importer.bytes), imports).exports
  expect(mine).toBe(memory)
  expect(Buffer.from(memory.buffer, 8, 4).toString()).toBe('data')
  expect([1, 3, 2].map(grow as (pages: number) => number)).toEqual([2, -1, 3])
})

test.each([
  ['no memory', [5, 1, 0]],
  ['two memories', [5, 7, 2, 1, 1, 2, 1, 1, 2]],
  ['a memory of its own and an imported one', [2, 7, 1, 1, 0x61, 1, 0x62, 2, 0, 1, 5, 4, 1, 1, 1, 2]],
  ['a shared memory', [5, 4, 1, 3, 1, 2]],
  ['a memory with 64-bit addresses', [5, 4, 1, 5, 1, 2]],
])('a module with %s is left alone', (_kind, section) => {
  const bytes = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...section)
  expect(importMemory(bytes, 'test')).toBeUndefined()
})

test('a module that imports its memory is left alone', () => {
  expect(importing('(module (import "a" "b" (memory 1)))')).toBeUndefined()
})

test('a module stays what it was but for its memory', () => {
  const name = fc.stringMatching(/^[a-z]{1,8}$/)
  const anyModule = fc.record({
    imports: fc.uniqueArray(name),
    exports: fc.uniqueArray(name),
    limits: fc.tuple(fc.nat(200), fc.option(fc.nat(50_000))),
    isNamed: fc.boolean(),
  })
  fc.assert(
    fc.property(anyModule, ({ imports, exports, limits: [min, extra], isNamed }) => {
      const text = [
        ...imports.map((wanted) => `(import "env" "${wanted}" (func (param i64)))`),
        `(memory ${isNamed ? '(export "memory")' : ''} ${min} ${extra === null ? '' : min + extra})`,
        ...exports.map((named) => `(func (export "x-${named}") (result i32) (memory.size))`),
      ]
      const before = compile(guestBytes(`(module ${text.join('\n')})`))
      const importer = importing(`(module ${text.join('\n')})`)
      const after = compile(importer?.bytes ?? new Uint8Array())
      const { namespace: module, name } = MEMORY_IMPORT
      expect(WebAssembly.Module.exports(after)).toEqual(WebAssembly.Module.exports(before))
      expect(WebAssembly.Module.imports(after)).toEqual([
        ...WebAssembly.Module.imports(before),
        { module, name, kind: 'memory' },
      ])
      expect(importer?.limits).toEqual({ initial: min, maximum: extra === null ? CAP : min + extra })
    }),
  )
})

test('a guest cannot ask for the memory that the host gives', async () => {
  const { namespace, name } = MEMORY_IMPORT
  const source = guestBytes(
    `(module (import "${namespace}" "${name}" (memory 1 65536)) (func (export "run")))`,
  )
  const plugin = await loadPlugin(source, { isolation: 'fresh' })
  expect(() => kernel.open(plugin, settingsOf())).toThrow(
    expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING' }),
  )
})
