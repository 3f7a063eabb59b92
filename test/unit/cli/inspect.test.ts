import { expect, test } from 'vitest'
import { run } from '../../support/cli.ts'
import { file, guestBytes } from '../../support/guest.ts'

/** A plug-in with these exports, which do nothing. */
const pluginOf = (...names: readonly string[]) => {
  const functions = names.map((name) => `(func (export "${name}") (result i32) (i32.const 0))`)
  return file('plugin.wasm', guestBytes(`(module ${functions.join('')})`))
}

test.each([
  ['that describes the tools is none itself', ['add', 'describe'], ['add']],
  ['is a tool, even if it has the name of one that describes tools', ['describe'], ['describe']],
  ['of a guest that lists its tools is none', ['list_tools', 'call_tool', 'add'], []],
  ['is a tool beside one that only lists tools', ['list_tools', 'add'], ['list_tools', 'add']],
])('an export %s', async (_, names, expected) => {
  const { code, stdout } = await run(['inspect', pluginOf(...names), '--json'])
  expect(code).toBe(0)
  expect(JSON.parse(stdout).tools.map(({ name }: { name: string }) => name)).toEqual(expected)
})

test.each([
  [['hs_init'], 'Haskell'],
  [['NimMain'], 'Nim'],
  [['go_scheduler'], 'TinyGo'],
  [['malloc', 'free', 'calloc', 'realloc', 'fminimum'], 'TinyGo'],
  [['__new', '__pin'], 'AssemblyScript'],
  [['__data_end', '__heap_base'], 'Rust, or another LLVM language'],
  [['emscripten_stack_get_current'], 'C or C++ (Emscripten)'],
])('the exports %j together give away %s', async (names, toolchain) => {
  const guess = async (...exports: readonly string[]) => {
    const { stdout } = await run(['inspect', pluginOf('add', ...exports), '--json'])
    return JSON.parse(stdout).toolchain
  }
  expect(await guess(...names)).toEqual({ name: toolchain, because: `it exports ${names.join(', ')}` })
  for (const name of names) expect(await guess(...names.filter((each) => each !== name))).toBeNull()
})

test.each([
  ['needed, and on unless --no-wasi', '(import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))'],
  ['not needed', ''],
])('WASI is %s', async (said, imports) => {
  const path = file('wasi.wasm', guestBytes(`(module ${imports} (func (export "go")))`))
  expect((await run(['inspect', path])).stdout).toContain(`\nWASI: ${said}\n`)
})

test.each([
  ['alone', '', ''],
  ['beside another function', '(func (export "go"))', ', if it is named'],
])('the program of a command is called %s', async (_, more, said) => {
  const path = file(
    'program.wasm',
    guestBytes(`(module
      (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
      (memory (export "memory") 1) (func (export "_start")) ${more})`),
  )
  const { stdout } = await run(['inspect', path])
  expect(stdout).toContain(`\n  _start: the program, in a new instance for each call${said}\n`)
})
