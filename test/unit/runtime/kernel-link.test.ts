import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { couldBeFunction, importsOf } from '../../../src/cli/inspect/inspection.ts'
import { hostImports } from '../../../src/plugin/host-imports.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import { orderModules, type PlannedLink } from '../../../src/runtime/link-plan.ts'
import type { Instance, Runtime } from '../../../src/runtime/runtime.ts'
import { sdk } from '../../../src/runtime/sdk.ts'
import { keepLog, settingsOf } from '../../support/instance.ts'
import { linkedPlugin, openLinked } from '../../support/linked.ts'
import { runs } from '../../support/runs.ts'
import { SERVICE_OPTIONS } from '../../support/services.ts'

const runtimes: readonly Runtime[] = [kernel, sdk]

const SPEAK = '(import "speak" "speak" (func $speak (param i32)))'
const START_FAILED = { code: 'WASM_SERVE_INSTANCE_START_FAILED' }
const SDK_UNFIT = { code: 'WASM_SERVE_RUNTIME_UNFIT' }

/** Whether a number is even, by a module that asks another one for odd numbers, which asks back. */
const EVEN = `(module ${SPEAK}
  (import "odd" "odd" (func $odd (param i64) (result i32)))
  (func $even (export "even") (param $n i64) (result i32)
    (if (result i32) (i64.eqz (local.get $n)) (then (i32.const 1))
      (else (call $odd (i64.sub (local.get $n) (i64.const 1))))))
  (func (export "go") (call $speak (i32.add (i32.const 48) (call $even (i64.const 101))))))`
const ODD = `(module (import "main" "even" (func $even (param i64) (result i32)))
  (func (export "odd") (param $n i64) (result i32)
    (if (result i32) (i64.eqz (local.get $n)) (then (i32.const 0))
      (else (call $even (i64.sub (local.get $n) (i64.const 1)))))))`

/** A command whose function says how often something of it ran. */
const COUNTER = `(module (global $n (mut i32) (i32.const 48))
  (func $more (global.set $n (i32.add (global.get $n) (i32.const 1))))
  (func (export "__wasm_call_ctors") (call $more))
  (func (export "_start") (unreachable))
  (func (export "next") (param i64) (result i32) (call $more) (global.get $n)))`

async function go(instance: Instance, name = 'go'): Promise<string> {
  return Buffer.from(await instance.call(name, new Uint8Array(), { log: keepLog() })).toString()
}

/** What a call, which may throw at once, rejects with. */
async function failure(instance: Instance, name = 'go'): Promise<unknown> {
  return go(instance, name).then(
    () => {
      throw new Error('it did not fail')
    },
    (error: unknown) => error,
  )
}

describe.each(runtimes)('the $name runtime', (runtime) => {
  test('a function of a linked module runs as part of the call, with what the host provides', async () => {
    const main = `(module ${SPEAK} (func (export "go") (call $speak (i32.const 33))))`
    expect(await go(await openLinked(runtime, await linkedPlugin(main, { speak: 'link-speak' })))).toBe('!')
  })

  test('memories, tables and globals are shared along a chain of modules', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK}
        (import "middle" "memory" (memory 1))
        (import "middle" "table" (table 1 funcref))
        (import "base" "global" (global $global i32))
        (type $number (func (result i32)))
        (func (export "go") (call $speak (i32.add (global.get $global)
          (i32.add (i32.load8_u (i32.const 5)) (call_indirect (type $number) (i32.const 0)))))))`,
      {
        middle: `(module (import "base" "memory" (memory 1)) (export "memory" (memory 0))
          (import "base" "table" (table 1 funcref)) (export "table" (table 0))
          (data (i32.const 5) "\\20"))`,
        speak: 'link-speak',
        base: `(module (memory (export "memory") 1) (table (export "table") 1 funcref) (elem (i32.const 0) $one)
          (global (export "global") i32 (i32.const 32)) (func $one (result i32) (i32.const 1)))`,
      },
    )
    expect(await go(await openLinked(runtime, plugin))).toBe('A')
  })

  test('a module that several import from is there once', async () => {
    const counts = `(module (import "counter" "next" (func $next (result i32)))
      (func (export "next") (result i32) (call $next)))`
    const plugin = await linkedPlugin(
      `(module ${SPEAK}
        (import "a" "next" (func $a (result i32))) (import "b" "next" (func $b (result i32)))
        (func (export "go") (drop (call $a)) (drop (call $b)) (call $speak (call $a))))`,
      {
        a: counts,
        b: counts,
        speak: 'link-speak',
        counter: `(module (global $n (mut i32) (i32.const 48))
          (func (export "next") (result i32) (global.set $n (i32.add (global.get $n) (i32.const 1))) (global.get $n)))`,
      },
    )
    expect(await go(await openLinked(runtime, plugin))).toBe('3')
    expect(await go(await openLinked(runtime, plugin))).toBe('3') // of an instance of its own
  })

  test('a module is started before those that import from it', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "b" "get" (func $get (result i32))) (global $g (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $g (i32.add (call $get) (i32.const 1))))
        (func (export "go") (call $speak (global.get $g))))`,
      {
        b: `(module (import "c" "get" (func $get (result i32))) (global $g (mut i32) (i32.const 0))
          (func (export "_initialize") (global.set $g (i32.add (call $get) (i32.const 1))))
          (func (export "get") (result i32) (global.get $g)))`,
        c: `(module (global $g (mut i32) (i32.const 0))
          (func (export "_initialize") (global.set $g (i32.const 65)))
          (func (export "get") (result i32) (global.get $g)))`,
        speak: 'link-speak',
      },
    )
    expect(await go(await openLinked(runtime, plugin))).toBe('C')
  })

  test('modules can import functions from each other in a circle, but the sdk refuses that', async () => {
    const plugin = await linkedPlugin(EVEN, { odd: ODD, speak: 'link-speak' })
    if (runtime === kernel) expect(await go(await openLinked(runtime, plugin))).toBe('0')
    else await expect(openLinked(runtime, plugin)).rejects.toMatchObject(SDK_UNFIT)
  })

  test('a module that nobody imports from is not started', async () => {
    const plugin = await linkedPlugin(`(module ${SPEAK} (func (export "go") (call $speak (i32.const 65))))`, {
      speak: 'link-speak',
      broken: '(module (import "nobody" "has this" (func)) (func $start (unreachable)) (start $start))',
    })
    expect(await go(await openLinked(runtime, plugin))).toBe('A')
  })

  test('the call ends when a linked module traps, and its functions are named', async () => {
    const plugin = await linkedPlugin(
      '(module (import "speak" "trap" (func $trap)) (func $go (export "go") (call $trap)))',
      { speak: 'link-speak' },
    )
    expect(await failure(await openLinked(runtime, plugin))).toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
      cause: { reason: 'unreachable', guestStack: [expect.anything(), 'go'] },
    })
  })

  test('a linked module that traps while it starts keeps the plug-in from starting', async () => {
    const plugin = await linkedPlugin('(module (import "bad" "f" (func)) (func (export "go")))', {
      bad: '(module (func (export "f")) (func (export "_initialize") (unreachable)))',
    })
    await expect(openLinked(runtime, plugin)).rejects.toMatchObject(START_FAILED)
  })

  test('all imports that nobody provides are listed at once, with who needs them and why they are not met', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "gone" (func)) (import "lib" "memory" (func)) (import "lib" "there" (func))
        (import "nowhere" "f" (func)) (import "toString" "call" (func)))`,
      {
        lib: `(module (import "extism:host/env" "reset" (func)) (import "main" "f" (global i32))
          (memory (export "memory") 1) (func (export "there")))`,
      },
    )
    await expect(openLinked(runtime, plugin)).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
      message: expect.stringMatching(
        new RegExp(
          [
            'extism:host/env reset \\(function\\), which module "lib" needs: Extism has no such function',
            'main f \\(global\\), which module "lib" needs: module "main" has no such export',
            'lib gone \\(function\\): module "lib" has no such export',
            'lib memory \\(function\\): module "lib" exports a memory of that name',
            'nowhere f \\(function\\)',
            'toString call \\(function\\)',
          ].join('\\n  '),
        ),
      ),
    })
  })

  test('a linked module can have any name, also that of host functions which it does not define', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "extism:host/user" "next" (func $next (param i32) (result i32)))
        (func (export "go") (call $speak (call $next (i32.const 65)))))`,
      {
        speak: 'link-speak',
        'extism:host/user': `(module (func (export "next") (param i32) (result i32)
          (i32.add (local.get 0) (i32.const 1))))`,
      },
    )
    const functions = { 'extism:host/user': { other: () => 0 } }
    expect(await go(await openLinked(runtime, plugin, { functions }))).toBe('B')
  })

  test('WASI that only a linked module needs can be switched off', async () => {
    const plugin = await linkedPlugin('(module (import "print" "print" (func)) (func (export "go")))', {
      print: 'link-print',
    })
    await openLinked(runtime, plugin)
    await expect(openLinked(runtime, plugin, { route: { wasi: false } })).rejects.toMatchObject({
      code: 'WASM_SERVE_WASI_DISABLED',
      message: expect.stringContaining('fd_write'),
    })
  })

  test('a memory cannot be imported in a circle, and the modules of the circle are named', async () => {
    const plugin = await linkedPlugin(
      '(module (import "lib" "memory" (memory 1)) (export "own" (memory 0)))',
      { lib: '(module (import "main" "own" (memory 1)) (export "memory" (memory 0)))' },
    )
    await expect(openLinked(runtime, plugin)).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
      message: expect.stringMatching(/"main" and "lib"|"lib" and "main"/),
    })
  })
})

/** A guest that imports two functions by one name, of which a linked module defines `next`. */
const mixed = () =>
  linkedPlugin(
    `(module ${SPEAK} (import "extism:host/user" "next" (func $next (param i32) (result i32)))
      (import "extism:host/user" "number" (func $number (result i32)))
      (func (export "go") (call $speak (call $next (call $number)))))`,
    {
      speak: 'link-speak',
      'extism:host/user': `(module (import "extism:host/user" "number" (func $number (result i32)))
        (func (export "next") (param i32) (result i32) (i32.add (local.get 0) (call $number))))`,
    },
  )
const numbers = { 'extism:host/user': { number: () => 33 } }

test('what the module of a namespace does not define is left to the host, also by the store and by inspect', async () => {
  const plugin = await mixed()
  const number = { module: 'extism:host/user', name: 'number', kind: 'function' }
  expect(hostImports(plugin).filter(({ module }) => module === number.module)).toEqual([number, number])
  const imports = importsOf(plugin, SERVICE_OPTIONS, numbers).filter(
    ({ namespace }) => namespace === number.module,
  )
  expect(imports.map(({ module, name, metBy }) => `${module} ${name}: ${metBy}`)).toEqual([
    'main next: module',
    'main number: functions',
    'extism:host/user number: functions',
  ])
  expect(importsOf(plugin, SERVICE_OPTIONS).filter(couldBeFunction)).toHaveLength(2)
})

test('the sdk runtime refuses a module and host functions of one name if the guest needs both', async () => {
  await expect(openLinked(sdk, await mixed(), { functions: numbers })).rejects.toMatchObject({
    code: 'WASM_SERVE_RUNTIME_UNFIT',
  })
})

describe('the kernel runtime', () => {
  test('imports of one name are met by a linked module and by host functions, as each defines them', async () => {
    expect(await go(await openLinked(kernel, await mixed(), { functions: numbers }))).toBe('B')
  })

  test('an import that neither the module of that name nor a host function defines is listed', async () => {
    await expect(openLinked(kernel, await mixed(), { functions: {} })).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
      message: expect.stringContaining('extism:host/user number (function): module'),
    })
  })

  test('each module that prints does it from its own memory, and lines are not mixed', async () => {
    const log = keepLog()
    const plugin = await linkedPlugin(
      `(module (import "print" "print" (func $print))
        (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\\08\\00\\00\\00\\04\\00\\00\\00main")
        (func (export "go") (call $print)
          (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))
          (call $print)))`,
      { print: 'link-print' },
    )
    const instance = await openLinked(kernel, plugin)
    await instance.call('go', new Uint8Array(), { log })
    expect(log.lines.map(({ message }) => message)).toEqual(['linked', 'linked', 'main'])
  })

  test('a module that prints from the memory of another one can, also while it starts', async () => {
    const log = keepLog()
    const prints = `(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
      (import "memory" "memory" (memory 1)) (data (i32.const 0) "\\08\\00\\00\\00\\06\\00\\00\\00shared")
      (func $print (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100))))`
    const plugin = await linkedPlugin(
      `(module ${prints} (start $print) (func (export "go") (call $print)))`,
      {
        memory: '(module (memory (export "memory") 1))',
      },
    )
    const instance = await openLinked(kernel, plugin, { log })
    await instance.call('go', new Uint8Array(), { log })
    expect(log.lines.map(({ message }) => message)).toEqual(['shared', 'shared'])
  })

  test('the memories of all modules count, each once; those that are not exported cannot be seen', async () => {
    const lone = await openLinked(kernel, await linkedPlugin('(module (func (export "go")))'))
    const plugin = await linkedPlugin(
      `(module (import "lib" "shared" (memory 1)) (export "again" (memory 0)) (import "hides" "f" (func))
        (import "lib" "grow" (func $grow)) (func (export "go") (call $grow)))`,
      {
        lib: `(module (memory (export "shared") 2) (export "twice" (memory 0))
          (func (export "grow") (drop (memory.grow (i32.const 3)))))`,
        hides: '(module (memory 7) (func (export "f")))',
      },
    )
    const instance = await openLinked(kernel, plugin)
    expect(instance.memoryBytes - lone.memoryBytes).toBe(2 * 65_536)
    await go(instance)
    expect(instance.memoryBytes - lone.memoryBytes).toBe(5 * 65_536)
  })

  test('in a circle a module can import several functions from another', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "go" (func $lib)) (func (export "go") (call $lib))
        (func (export "one") (result i32) (i32.const 65)) (func (export "two") (result i32) (i32.const 2)))`,
      {
        lib: `(module ${SPEAK}
          (import "main" "one" (func $one (result i32))) (import "main" "two" (func $two (result i32)))
          (func (export "go") (call $speak (i32.add (call $one) (call $two)))))`,
        speak: 'link-speak',
      },
    )
    expect(await go(await openLinked(kernel, plugin))).toBe('C')
    await expect(openLinked(sdk, plugin)).rejects.toMatchObject(SDK_UNFIT)
  })

  test('in a circle of functions one module can have the memory of the other', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "first" (func $first (result i32))) ${SPEAK}
        (memory (export "memory") 1) (data (i32.const 0) "M")
        (func (export "go") (call $speak (call $first))))`,
      {
        lib: `(module (import "main" "memory" (memory 1))
          (func (export "first") (result i32) (i32.load8_u (i32.const 0))))`,
        speak: 'link-speak',
      },
    )
    expect(await go(await openLinked(kernel, plugin))).toBe('M')
    await expect(openLinked(sdk, plugin)).rejects.toMatchObject(SDK_UNFIT)
  })

  test('modules of a circle are all there before one of them is started', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "get" (func $get (result i32))) ${SPEAK}
        (func (export "constant") (result i32) (i32.const 67))
        (func (export "go") (call $speak (call $get))))`,
      {
        lib: `(module (import "main" "constant" (func $constant (result i32))) (global $g (mut i32) (i32.const 0))
          (func (export "_initialize") (global.set $g (call $constant)))
          (func (export "get") (result i32) (global.get $g)))`,
        speak: 'link-speak',
      },
    )
    expect(await go(await openLinked(kernel, plugin))).toBe('C')
    await expect(openLinked(sdk, plugin)).rejects.toMatchObject(SDK_UNFIT)
  })

  test('in a circle the main module is started last, whoever has to be there first', async () => {
    const plugin = await linkedPlugin(
      `(module (import "lib" "get" (func $get (result i32))) ${SPEAK}
        (memory (export "memory") 1) (global $g (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $g (call $get)))
        (func (export "go") (call $speak (global.get $g))))`,
      {
        lib: `(module (import "main" "memory" (memory 1))
          (func (export "_initialize") (i32.store8 (i32.const 9) (i32.const 76)))
          (func (export "get") (result i32) (i32.load8_u (i32.const 9))))`,
        speak: 'link-speak',
      },
    )
    expect(await go(await openLinked(kernel, plugin))).toBe('L')
  })

  test('a start function that needs a module of its circle that is not there says so', async () => {
    const plugin = await linkedPlugin(
      '(module (import "lib" "f" (func $f)) (func (export "back")) (func (export "go") (call $f)))',
      { lib: '(module (import "main" "back" (func $back)) (func (export "f")) (start $back))' },
    )
    await expect(openLinked(kernel, plugin)).rejects.toMatchObject({
      ...START_FAILED,
      message: expect.stringMatching(/module "lib": .*module "main" was called before/),
    })
  })

  test('a module can import what it exports itself', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "main" "say" (func $say)) (func (export "say") (call $speak (i32.const 83)))
        (func (export "go") (call $say)))`,
      { speak: 'link-speak' },
    )
    expect(await go(await openLinked(kernel, plugin))).toBe('S')
  })

  test('a linked command starts anew for each call, and its program is not run for its functions', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "lib" "next" (func $next (param i64) (result i32)))
        (func (export "go") (drop (call $next (i64.const 1))) (call $speak (call $next (i64.const 1)))))`,
      { lib: COUNTER, speak: 'link-speak' },
    )
    const instance = await openLinked(kernel, plugin)
    expect([await go(instance), await go(instance)]).toEqual(['2', '2']) // of its constructors, and of the call
  })

  test('a linked command is a run of its own when its program is called, which ends with its status', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "lib" "_start" (func $start)) (import "lib" "fail" (func $fail))
        (func (export "go") (call $start) (call $start) (call $speak (i32.const 65)))
        (func (export "fails") (call $fail)))`,
      {
        lib: `(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (global $runs (mut i32) (i32.const 0))
          (func (export "__wasm_call_ctors") (global.set $runs (i32.const 5)))
          (func (export "_start") (global.set $runs (i32.add (global.get $runs) (i32.const 1)))
            (if (i32.ne (global.get $runs) (i32.const 1)) (then (unreachable))) (call $exit (i32.const 0)))
          (func (export "fail") (call $exit (i32.const 5))))`,
        speak: 'link-speak',
      },
    )
    const instance = await openLinked(kernel, plugin)
    expect(await go(instance)).toBe('A')
    expect(await failure(instance, 'fails')).toMatchObject({
      message: 'The guest function "fails" exited with status 5',
    })
  })

  test('a command that a command links prints where it prints, and what was open is closed', async () => {
    const plugin = await linkedPlugin(
      `(module (import "print" "print" (func $print))
        (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\\08\\00\\00\\00\\04\\00\\00\\00main")
        (func (export "_start") (call $print)
          (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))))`,
      {
        print: `(module
          (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1) (data (i32.const 0) "\\08\\00\\00\\00\\07\\00\\00\\00linked\\0a")
          (func (export "_start"))
          (func (export "print") (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))))`,
      },
    )
    const log = keepLog()
    const instance = await kernel.open(plugin, { ...settingsOf({}, log), command: true })
    expect(Buffer.from(await instance.call('_start', new Uint8Array(), { log })).toString()).toBe(
      'linked\nmain',
    )
    expect(log.lines).toEqual([])
    await instance.close()
  })

  test('a command that calls itself by way of another module has no end of instances, and is stopped', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "lib" "down" (func $down (param i32) (result i32)))
        (func (export "back") (param i32) (result i32) (call $down (local.get 0)))
        (func (export "few") (call $speak (call $down (i32.const 70))))
        (func (export "many") (call $speak (call $down (i32.const 1000)))))`,
      {
        lib: `(module (import "main" "back" (func $back (param i32) (result i32))) (func (export "_start"))
          (func (export "down") (param $n i32) (result i32)
            (if (result i32) (i32.eq (local.get $n) (i32.const 65)) (then (i32.const 65))
              (else (call $back (i32.sub (local.get $n) (i32.const 1)))))))`,
        speak: 'link-speak',
      },
    )
    const instance = await openLinked(kernel, plugin)
    expect(await go(instance, 'few')).toBe('A')
    expect(await failure(instance, 'many')).toMatchObject({
      code: 'WASM_SERVE_GUEST_TRAP',
      cause: { reason: expect.stringContaining('more than 16 linked commands') },
    })
    expect(await go(await openLinked(kernel, plugin), 'few')).toBe('A')
  })

  test('of a linked command only functions can be imported', async () => {
    const plugin = await linkedPlugin('(module (import "lib" "memory" (memory 1)) (func (export "go")))', {
      lib: '(module (memory (export "memory") 1) (func (export "_start")))',
    })
    await expect(openLinked(kernel, plugin)).rejects.toMatchObject({
      code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING',
      message: expect.stringContaining('"lib" is a command'),
    })
  })

  test('a linked module with _initialize is a reactor, whatever else it exports, and lasts', async () => {
    const plugin = await linkedPlugin(
      `(module ${SPEAK} (import "lib" "next" (func $next (param i64) (result i32)))
        (func (export "go") (drop (call $next (i64.const 1))) (call $speak (call $next (i64.const 1)))))`,
      { lib: COUNTER.replace('__wasm_call_ctors', '_initialize'), speak: 'link-speak' },
    )
    const instance = await openLinked(kernel, plugin)
    expect([await go(instance), await go(instance)]).toEqual(['3', '5'])
  })

  test('an async host function cannot be waited for in a linked command, and can be beside one', async () => {
    const plugin = async (command: string) =>
      linkedPlugin(
        `(module (import "lib" "f" (func $f)) (import "host" "wait" (func $wait))
          (func (export "go") (call $f) (call $wait)))`,
        { lib: command },
      )
    const functions = { host: { wait: async () => undefined } }
    const waits = '(module (import "host" "wait" (func $f)) (export "f" (func $f)) (func (export "_start")))'
    await expect(openLinked(kernel, await plugin(waits), { functions })).rejects.toMatchObject({
      code: 'WASM_SERVE_HOST_FUNCTION_ASYNC',
    })
    if (!('Suspending' in WebAssembly)) return
    const idle = '(module (func (export "f")) (func (export "_start")))'
    expect(await go(await openLinked(kernel, await plugin(idle), { functions }))).toBe('')
  })

  test('names that every object has are names of modules like others', async () => {
    for (const name of ['__proto__', 'constructor', 'hasOwnProperty']) {
      const plugin = await linkedPlugin(
        `(module (import "${name}" "${name}" (func $speak (param i32))) (func (export "go") (call $speak (i32.const 80))))`,
      )
      const { linked } = await linkedPlugin('(module)', {
        it: `(module (import "speak" "speak" (func (param i32))) (export "${name}" (func 0)))`,
        speak: 'link-speak',
      })
      const renamed = linked.map((each) => (each.name === 'it' ? { ...each, name } : each))
      expect(await go(await openLinked(kernel, { ...plugin, linked: renamed }))).toBe('P')
    }
  })

  test('modules that are linked with the wrong signature are refused, and the module is named', async () => {
    const plugin = await linkedPlugin('(module (import "lib" "f" (func)) (func (export "go")))', {
      lib: '(module (import "base" "f" (func (param i64))) (export "f" (func 0)))',
      base: '(module (func (export "f") (param i32)))',
    })
    await expect(openLinked(kernel, plugin)).rejects.toMatchObject({
      ...START_FAILED,
      message: expect.stringContaining('module "lib"'),
    })
  })
})

describe('the order of modules', () => {
  const COUNT = 7
  const module = fc.nat(COUNT - 1)
  const link = fc.record({ importer: module, from: module, isNeededFirst: fc.boolean() })

  test('providers come before those that import from them, except in a circle, where those come that are needed first', () => {
    fc.assert(
      fc.property(fc.array(link, { maxLength: 20 }), (links) => {
        const linksOf = (importer: number): PlannedLink<number>[] =>
          links.filter((each) => each.importer === importer)
        const groups = orderModules(0, linksOf)
        const order = groups.flatMap(({ linkOrder }) => linkOrder)
        const reaches = (from: number, to: number) => reached(from, linksOf).has(to)

        expect(order.toSorted()).toEqual([...new Set([0, ...reached(0, linksOf)])].toSorted())
        expect(groups.at(-1)?.startOrder.at(-1)).toBe(0)
        groups.forEach(({ linkOrder, startOrder }, index) => {
          expect(linkOrder.toSorted()).toEqual(startOrder.toSorted())
          const isCircular = linkOrder.every((a) => linkOrder.every((b) => a === b || reaches(a, b)))
          expect(isCircular).toBe(true)
          const later = groups.slice(index + 1).flatMap((group) => group.linkOrder)
          for (const importer of linkOrder) {
            for (const { from } of linksOf(importer)) expect(later).not.toContain(from)
          }
          const needs = (importer: number) => linksOf(importer).filter(({ isNeededFirst }) => isNeededFirst)
          if (linkOrder.some((each) => reached(each, needs).has(each))) return // no order is right
          for (const importer of linkOrder) {
            for (const { from } of needs(importer))
              expect(order.indexOf(from)).toBeLessThan(order.indexOf(importer))
          }
        })
      }),
      { numRuns: runs(200) },
    )
  })
})

function reached(from: number, linksOf: (module: number) => readonly PlannedLink<number>[]): Set<number> {
  const found = new Set<number>()
  const left = [from]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    for (const { from: provider } of linksOf(next)) {
      if (!found.has(provider)) left.push(provider)
      found.add(provider)
    }
  }
  return found
}
