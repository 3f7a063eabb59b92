import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RESET_EXPORT } from '../../../src/module/names.ts'
import { makeResettable, type Resettable } from '../../../src/module/resettable.ts'
import { hasArrays, type Records } from '../../../src/module/writes.ts'
import { loadPlugin } from '../../../src/plugin/plugin.ts'
import {
  HostWatch,
  type InitialStates,
  type InstanceReset,
  openInstanceReset,
} from '../../../src/runtime/instance-reset.ts'
import { guestBytes } from '../../support/guest.ts'
import { capped, list, moduleOf as moduleWith, section } from '../../support/module-bytes.ts'
import { assertReaching, runs } from '../../support/runs.ts'

const CAP = 60_000

/** The form of a module whose instances can be made as new; undefined if there is none. */
function resettable(bytes: Uint8Array, records?: Records): Resettable | undefined {
  return makeResettable(capped(bytes, CAP), records)
}

/** What modules can record of their writes. */
const KINDS = hasArrays ? (['blocks', 'lowest'] as const) : (['lowest'] as const)

const isValid = (bytes: Uint8Array) => WebAssembly.validate(bytes as Uint8Array<ArrayBuffer>)
const compile = (bytes: Uint8Array) => new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)

type Numbers = (...numbers: (number | bigint)[]) => number

interface Opened {
  readonly exports: Readonly<Record<string, Numbers>>
  readonly memory: WebAssembly.Memory
  readonly renewal: InstanceReset
  readonly lowest: WebAssembly.Global | undefined
}

const imports = { env: { three: 3 } }

function open(bytes: Uint8Array, records?: Records): Opened {
  const form = resettable(bytes, records)
  if (!form) throw new Error('not resettable')
  const module = compile(form.bytes)
  const { exports } = new WebAssembly.Instance(module, imports)
  const renewal = openInstanceReset({ ...form, module }, exports, new HostWatch())
  if (!renewal) throw new Error('not renewed')
  renewal.started()
  return {
    exports: exports as Opened['exports'],
    memory: exports[RESET_EXPORT.memory] as WebAssembly.Memory,
    renewal,
    lowest: exports[RESET_EXPORT.lowest] as WebAssembly.Global | undefined,
  }
}

test('what a module was when it was new is looked for once, and not in a memory too large to be kept', () => {
  const openings = (pages: number) => {
    const form = resettable(guestBytes(`(module (memory ${pages}) (data (i32.const 8) "data"))`))
    if (!form) throw new Error('not resettable')
    const module = compile(form.bytes)
    const origins: InitialStates = {}
    return [1, 2].map(() => {
      const { exports } = new WebAssembly.Instance(module)
      const renewal = openInstanceReset({ ...form, module }, exports, new HostWatch(), origins)
      renewal?.started()
      return { renewal, ...origins }
    })
  }
  const [first, second] = openings(512)
  expect(first?.started?.bytes).toHaveLength(1)
  expect([second?.linked === first?.linked, second?.started === first?.started]).toEqual([true, true])
  expect(second?.renewal?.renew()).toBe(true)
  expect(openings(513).map(({ renewal }) => renewal)).toEqual([undefined, undefined])
})

const USES = `(func (export "size") (result i32) (memory.size))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))`

test('an instance that has grown before finds the sizes, and grows, as a new one', () => {
  const globals = fc.constantFrom(
    '',
    '(global i32 (i32.const 7))',
    '(import "env" "three" (global i32)) (global (mut i64) (i64.const 1))',
  )
  const delta = fc.oneof(fc.nat(8), fc.integer({ min: -3, max: 70_000 }))
  const sequences = fc.array(fc.array(fc.option(delta, { nil: 'size' as const })), {
    minLength: 1,
    maxLength: 4,
  })
  fc.assert(
    fc.property(globals, fc.nat(70), fc.nat(9), sequences, (kind, initial, extra, sequence) => {
      const [imported, own] = kind.startsWith('(import') ? [kind, ''] : ['', kind]
      const bytes = guestBytes(`(module ${imported} (memory ${initial} ${initial + extra}) ${own} ${USES})`)
      const { exports, renewal } = open(bytes)
      for (const steps of sequence) {
        const fresh = new WebAssembly.Instance(compile(bytes), imports).exports as Opened['exports']
        const run = ({ size, grow }: Opened['exports']) =>
          steps.map((step) => (step === 'size' ? size?.() : grow?.(step)))
        expect(run(exports)).toEqual(run(fresh))
        expect(renewal.renew()).toBe(true)
      }
    }),
    { numRuns: runs(40) },
  )
})

/** Bytes that would be `memory.size` and `memory.grow` if they were instructions. */
const TRAPS = [0x3f, 0x00, 0x40, 0x00]

const SIZE = [0x3f, 0]
const i32 = 0x7f
const drop = 0x1a
const end = 0x0b

/** Instructions that answer with the size of the memory, behind what could be taken for something else. */
const bodies: readonly (readonly [string, readonly number[]])[] = [
  ['numbers', [0x41, 0xbf, 0x80, 0xc0, 0, drop, 0x42, 0x3f, drop, 0x44, ...TRAPS, ...TRAPS, drop, ...SIZE]],
  ['vectors', [0xfd, 12, ...TRAPS, ...TRAPS, ...TRAPS, ...TRAPS, drop, ...SIZE]],
  ['shuffled vectors', [...v128(), ...v128(), 0xfd, 13, ...Array(16).fill(end), drop, ...SIZE]],
  ['a saturating conversion', [0x43, 0, 0, 0, 0, 0xfc, 0, drop, ...SIZE]],
  ['bulk memory', [0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 0, ...SIZE]],
  ['a tail call', [...SIZE, 0x04, 0x40, 0x12, 1, end, 0x41, 0]],
  ['legacy exceptions', [0x06, i32, 0x08, 0, 0x07, 0, ...SIZE, end]],
  ['exceptions', [0x02, 0x40, 0x1f, 0x40, 1, 0, 0, 0, 0x08, 0, end, end, ...SIZE]],
  ['atomics', [0x41, 0, 0xfe, 0x10, 2, 0, drop, 0xfe, 3, 0, ...SIZE]],
  ['references', [0xd2, 0, 0xd4, drop, ...SIZE]],
  ['a function reference', [0xd2, 1, 0x14, 0]],
]

function v128(): number[] {
  return [0xfd, 12, ...Array(16).fill(0)]
}

/** A module of two functions without parameters: the first has these instructions, the second answers with the size. */
function moduleOf(instructions: readonly number[], locals: readonly number[] = [0]): Uint8Array {
  const section = (id: number, ...content: number[]) => [id, content.length, ...content]
  const body = (code: readonly number[], declared = [0] as readonly number[]) => [
    code.length + declared.length + 1,
    ...declared,
    ...code,
    end,
  ]
  return Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 2, 0x60, 0, 1, i32, 0x60, 0, 0),
    ...section(3, 2, 0, 0),
    ...section(5, 1, 0, 2),
    ...section(13, 1, 0, 1),
    ...section(7, 1, 4, ...Buffer.from('size'), 0, 0),
    ...section(9, 1, 3, 0, 2, 0, 1),
    ...section(10, 2, ...body(instructions, locals), ...body(SIZE)),
  )
}

test.each(bodies)('a module with %s is rewritten right, if the engine can run it', (_name, instructions) => {
  const bytes = moduleOf(instructions)
  const form = resettable(bytes)
  if (!isValid(bytes)) {
    expect(process.version).toMatch(/^v20\./)
    return
  }
  expect(form).toBeDefined()
  const { exports, memory, renewal } = open(bytes)
  memory.grow(5)
  expect(exports.size?.()).toBe(2)
  renewal.renew()
  expect(exports.size?.()).toBe(2)
})

test.each([
  ['an instruction that is not known', moduleOf([0xc5, ...SIZE])],
  ['a function that ends in the middle of an instruction', moduleOf([0x41, ...SIZE, 0x44])],
  ['a local of a type that is not known', moduleOf(SIZE, [1, 1, 0x61])],
  [
    'a function that claims to have 4 GiB',
    Uint8Array.of(
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, 0, 1],
      ...[10, 7, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0],
    ),
  ],
])('a module with %s is refused before it could be rewritten', (_kind, bytes) => {
  expect(() => resettable(bytes)).toThrow(expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_INVALID' }))
})

test.each([
  ['garbage collection', moduleOf([0x41, 7, 0xfb, 0x1c, 0xfb, 0x16, 0x6c, drop, ...SIZE])],
  ['two memories', header(5, 7, 2, 1, 1, 2, 1, 1, 2)],
  ['a memory of its own and an imported one', header(2, 8, 1, 1, 0x61, 1, 0x62, 2, 0, 1, 5, 4, 1, 1, 1, 2)],
  ['a shared memory', header(5, 4, 1, 3, 1, 2)],
  ['a memory with 64-bit addresses', header(5, 4, 1, 5, 1, 2)],
  ['a vector in a global', header(5, 3, 1, 0, 1, 6, 22, 1, 0x7b, 1, ...v128(), end)],
])('a module with %s is left alone', (_kind, bytes) => {
  expect(resettable(bytes)).toBeUndefined()
})

function header(...sections: readonly number[]): Uint8Array {
  return Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...sections)
}

test.each([
  ['imports its memory', '(import "a" "b" (memory 1))'],
  ['writes into a table', '(memory 1) (table 1 funcref) (func (table.set (i32.const 0) (ref.null func)))'],
  ['grows a table', '(memory 1) (table 1 funcref) (func (drop (table.grow (ref.null func) (i32.const 1))))'],
  [
    'fills a table',
    '(memory 1) (table 1 funcref) (func (table.fill (i32.const 0) (ref.null func) (i32.const 1)))',
  ],
  [
    'copies a table',
    '(memory 1) (table 1 funcref) (func (table.copy (i32.const 0) (i32.const 0) (i32.const 1)))',
  ],
  [
    'fills a table from elements',
    '(memory 1) (table 1 funcref) (elem $e func) (func (table.init $e (i32.const 0) (i32.const 0) (i32.const 0)))',
  ],
  ['drops elements', '(memory 1) (elem $e func) (func (elem.drop $e))'],
  ['drops data', '(memory 1) (data $d "d") (func (data.drop $d))'],
  ['has a reference in a global', '(memory 1) (global (mut externref) (ref.null extern))'],
  ['gives a reference to the host', '(import "a" "b" (func (param externref))) (memory 1)'],
  ['gets a reference from the host', '(import "a" "b" (func (result funcref))) (memory 1)'],
  ['has 1,000 globals that change', `(memory 1) ${'(global (mut i32) (i32.const 1))'.repeat(1_000)}`],
  ['exports something by our name', `(memory (export "${RESET_EXPORT.memory}") 1)`],
  ['exports a function by that name, and has no memory', `(func (export "${RESET_EXPORT.memory}"))`],
  [
    'exports by our name what its form would not',
    `(memory 1) (global (export "${RESET_EXPORT.lowest}") i32 (i32.const 1))`,
  ],
])('a module that %s is served fresh all the same, by new instances', async (_kind, text) => {
  const plugin = await loadPlugin(guestBytes(`(module ${text} (func (export "run")))`), {
    isolation: 'fresh',
  })
  expect(plugin.resettable).toBeUndefined()
})

test('functions keep their names in a stack', () => {
  const text = `(module (memory 9) (data (i32.const 524288) "x")
    (func $first (drop (memory.grow (i32.const 1))))
    (func $breaks (i32.store (i32.const 0) (memory.grow (i32.const 1))) (unreachable))
    (func (export "size") (result i32) (call $first) (call $breaks) (i32.const 0)))`
  let stack: string | undefined
  try {
    open(guestBytes(text)).exports.size?.()
  } catch (error) {
    stack = (error as Error).stack
  }
  expect(stack).toMatch(/at (?:\S+\.)?breaks \(wasm:/)
})

const plugins = new URL('../../../plugins/', import.meta.url)
const committed = readdirSync(plugins, { recursive: true, encoding: 'utf8' }).filter((path) =>
  /^[^/]+\/[^/]+\.wasm$/.test(path),
)
const guests = readdirSync(new URL('../../guests', import.meta.url)).map((file) => file.replace('.wat', ''))

test('every plug-in and nearly every guest can be renewed, and is what it was else', () => {
  const all = new Map<string, Uint8Array>([
    ...committed.map((path) => [path, readFileSync(new URL(path, plugins))] as const),
    ...guests.map((name) => [name, guestBytes(name)] as const),
  ])
  const left: string[] = []
  for (const [name, bytes] of all) {
    const form = resettable(bytes)
    if (!form) left.push(name)
    if (!form) continue
    const [before, after] = [compile(bytes), compile(form.bytes)]
    const exports = WebAssembly.Module.exports(before)
    expect(WebAssembly.Module.exports(after).slice(0, exports.length)).toEqual(exports)
    expect(WebAssembly.Module.imports(after)).toEqual(WebAssembly.Module.imports(before))
  }
  expect(all.size).toBeGreaterThan(45)
  expect(left).toEqual(['bad-import', 'lasting', 'zoo'])
})

test('a mutant is rewritten or refused, and what the engine accepted before it accepts after', () => {
  const large = '(module (memory 17) (data (i32.const 1048576) "d")'
  const stores = `${large} (func (param i32) (i64.store offset=3 (local.get 0) (i64.const 5)))
    (func (memory.fill (i32.const 1) (i32.const 2) (memory.grow (memory.size)))))`
  const seeds = ['upper', 'stain', 'wasi', 'grow', 'zoo', stores].map(guestBytes)
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 })
  let accepted = 0
  assertReaching(
    fc.property(fc.constantFrom(...seeds), edits, fc.option(fc.nat(), { freq: 3 }), (seed, changes, cut) => {
      const bytes = Uint8Array.from(seed)
      for (const [at, byte] of changes) bytes[8 + (at % (bytes.length - 8))] = byte
      const mutant = cut === null ? bytes : bytes.subarray(0, cut % (bytes.length + 1))
      if (!isValid(mutant)) return
      const form = resettable(mutant)
      if (!form) return
      accepted++
      expect(isValid(form.bytes)).toBe(true)
    }),
    500,
    () => expect(accepted).toBeGreaterThan(10),
  )
})

test.each([
  ['in one function', (body: string) => `(func ${body.repeat(3_000)})`],
  ['in many', (body: string) => `(func ${body})`.repeat(3_000)],
])('a module that asks for its memory in thousands of places is left alone: %s', (_kind, functions) => {
  const bytes = guestBytes(`(module (memory 1 9) ${functions('(drop (memory.grow (memory.size)))')})`)
  expect(resettable(bytes)).toBeUndefined()
})

test('routes with the same plug-in share its resettable form', async () => {
  const load = () => loadPlugin(guestBytes('stain'), { isolation: 'fresh' })
  const { resettable } = await load()
  expect(resettable).toBeDefined()
  expect((await load()).resettable).toBe(resettable)
})

/** Where the data of these modules begin: what lies below is what they say they wrote. */
const DATA = 524_288
const PAGES = 10
const withData = (rest: string) =>
  guestBytes(`(module (memory ${PAGES}) (data (i32.const ${DATA}) "d") ${rest})`)

test('a module with atomic writes can be renewed, but does not say what it wrote', () => {
  const atomic = moduleOf([0x41, 0, 0x41, 1, 0xfe, 0x17, 2, 0, ...SIZE])
  for (const records of KINDS) {
    expect(resettable(atomic, records)?.records).toBe('nothing')
    expect(resettable(withData('(func)'), records)).toMatchObject({ records })
  }
  expect(resettable(withData('(func)'), 'lowest')?.untrackedFrom).toBe(DATA)
})

test('arrays record writes where V8 accepts a module with one', () => {
  expect(hasArrays).toBe(isValid(moduleWith(section(1, list([0x5e, 0x78, 1])))))
})

/** Every instruction that writes, as a function of an address and a value. */
const STORES = [
  ...['i32.store', 'i32.store8', 'i32.store16'].map((name) => [name, 'i32', '(local.get 1)'] as const),
  ...['i64.store', 'i64.store8', 'i64.store16', 'i64.store32'].map(
    (name) => [name, 'i64', '(local.get 1)'] as const,
  ),
  ['f32.store', 'i32', '(f32.convert_i32_u (local.get 1))'],
  ['f64.store', 'i64', '(f64.convert_i64_u (local.get 1))'],
  ['v128.store', 'i64', '(i64x2.splat (local.get 1))'],
  ...[8, 16, 32, 64].map((bits) => [`v128.store${bits}_lane`, 'i64', '(i64x2.splat (local.get 1))'] as const),
] as const
const OFFSETS = [0, 1, 65_536, DATA - 1, 2_147_483_648, 4_294_967_295]

/** Keeps a value below the operands on the stack, and calls another that writes, so that what is put in is tried. */
const storing = STORES.flatMap(([name, type, value]) =>
  OFFSETS.map((offset) => {
    const lane = name.endsWith('_lane') ? ' 1' : ''
    return `(func (export "${name}+${offset}") (param i32 ${type}) (result i32) (local f32 i64)
      (i32.add (i32.const 40) (block (result i32)
        (${name} offset=${offset}${lane} (call $pass (local.get 0)) ${value}) (i32.const 2))))`
  }),
)
const filling = `(func (export "memory.fill") (param i32 i32 i32) (result i32)
    (memory.fill (local.get 0) (local.get 1) (local.get 2)) (i32.const 42))
  (func (export "memory.copy") (param i32 i32 i32) (result i32)
    (memory.copy (local.get 0) (local.get 1) (local.get 2)) (i32.const 42))
  (data $more "something to begin with, and more than that")
  (func (export "memory.init") (param i32 i32 i32) (result i32)
    (memory.init $more (local.get 0) (local.get 1) (local.get 2)) (i32.const 42))`
const writer = withData(
  `(func $pass (param i32) (result i32) (local.get 0)) ${storing.join('\n')} ${filling}`,
)

test.each(KINDS)('whatever writes does what it did, and nothing else is written: %s', (records) => {
  const address = fc.oneof(
    fc.nat(200),
    fc.integer({ min: DATA - 40, max: DATA + 40 }),
    fc.integer({ min: PAGES * 65_536 - 40, max: PAGES * 65_536 }),
    fc.nat(PAGES * 65_536),
    fc.integer(),
  )
  const call = fc.oneof(
    fc
      .tuple(fc.constantFrom(...STORES), fc.constantFrom(...OFFSETS), address, fc.nat())
      .map(([[name, type], offset, at, value]): [string, ...(number | bigint)[]] => [
        `${name}+${offset}`,
        offset > at ? at : at - offset,
        type === 'i64' ? BigInt(value) : value,
      ]),
    fc
      .tuple(fc.constantFrom('memory.fill', 'memory.copy', 'memory.init'), address, fc.nat(300), fc.nat(60))
      .map(([name, at, from, length]): [string, ...(number | bigint)[]] => [name, at, from, length]),
  )
  const tracked = open(writer, records)
  const plain = new WebAssembly.Instance(compile(writer)).exports as Opened['exports']
  const plainForm = new WebAssembly.Instance(
    compile(resettable(writer, 'nothing')?.bytes ?? new Uint8Array()),
  )
  const other = plainForm.exports as Opened['exports']
  const before = Buffer.from(Buffer.from(tracked.memory.buffer).subarray(0, DATA + 1_024))
  const reference = Buffer.from((other[RESET_EXPORT.memory] as unknown as WebAssembly.Memory).buffer)
  let trapped = 0
  let lowered = 0
  assertReaching(
    fc.property(fc.array(call, { minLength: 1, maxLength: 12 }), (calls) => {
      for (const [name, ...numbers] of calls) {
        const results = [tracked.exports, plain, other].map((exports) => {
          try {
            return exports[name]?.(...numbers)
          } catch (error) {
            return (error as Error).message
          }
        })
        expect(new Set(results).size).toBe(1)
        if (results[0] !== 42) trapped++
      }
      const bytes = Buffer.from(tracked.memory.buffer)
      expect(bytes.equals(reference)).toBe(true)
      if (tracked.lowest) {
        const lowest = (tracked.lowest.value as number) >>> 0
        if (lowest < DATA) lowered++
        const untouched = Math.min(lowest, DATA)
        expect(bytes.subarray(0, untouched).equals(before.subarray(0, untouched))).toBe(true)
      }
      expect(tracked.renewal.renew()).toBe(true)
      reference.fill(0)
      reference.set(before)
      expect(bytes.equals(reference)).toBe(true)
    }),
    200,
    () => {
      expect(trapped).toBeGreaterThan(100)
      if (records === 'lowest') expect(lowered).toBeGreaterThan(100)
    },
  )
})

/** Statements of a function with three addresses, a counter, and calls of another function that writes. */
const statement = fc.letrec<{ one: string; many: string }>((tie) => {
  const local = fc.constantFrom('$a', '$b', '$c')
  const offset = fc.oneof(fc.nat(600), fc.constantFrom(0, 239, 240, 241, 4_095, 4_096))
  const address = fc.oneof(
    fc.nat(9 * 65_536),
    fc.integer({ min: -20, max: 20 }).map((near) => 131_072 + near),
  )
  const flag = fc
    .nat(7)
    .map((bit) => `(i32.and (i32.shr_u (local.get $flags) (i32.const ${bit})) (i32.const 1))`)
  const store = fc.constantFrom('i32.store', 'i64.store8', 'i64.store', 'i32.store16')
  const value = (name: string) => (name.startsWith('i64') ? '(i64.const -1)' : '(i32.const -1)')
  return {
    many: fc.array(tie('one'), { maxLength: 5 }).map((all) => all.join('\n')),
    one: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc
        .tuple(store, local, offset)
        .map(([name, to, at]) => `(${name} offset=${at} (local.get ${to}) ${value(name)})`),
      fc
        .tuple(store, local, offset, address)
        .map(
          ([name, to, at, next]) =>
            `(${name} offset=${at} (local.tee ${to} (i32.const ${Math.abs(next)})) ${value(name)})`,
        ),
      fc.tuple(local, address).map(([to, at]) => `(local.set ${to} (i32.const ${Math.abs(at)}))`),
      fc
        .tuple(local, local, fc.nat(300))
        .map(([to, of, more]) => `(local.set ${to} (i32.add (local.get ${of}) (i32.const ${more})))`),
      fc
        .tuple(local, fc.nat(300))
        .map(([to, length]) => `(memory.fill (local.get ${to}) (i32.const 255) (i32.const ${length}))`),
      fc
        .tuple(flag, tie('many'))
        .map(([when, body]) => `(block (br_if 0 ${when}) ${body} (br_if 0 ${when}) ${body})`),
      fc
        .tuple(flag, tie('many'), tie('many'))
        .map(([when, yes, no]) => `(if ${when} (then ${yes}) (else ${no}))`),
      fc.tuple(flag, tie('many')).map(
        ([when, body]) => `(loop (local.set $turns (i32.add (local.get $turns) (i32.const 1))) ${body}
          (br_if 0 (i32.and ${when} (i32.lt_u (local.get $turns) (i32.const 6)))))`,
      ),
      local.map((to) => `(drop (call $write (local.get ${to})))`),
    ),
  }
})

test.each(
  KINDS,
)('what programs write is restored, also where only one of several writes is recorded: %s', (records) => {
  fc.assert(
    fc.property(statement.many, fc.array(fc.nat(255), { minLength: 1, maxLength: 4 }), (body, flags) => {
      const { exports, memory, renewal } = open(
        guestBytes(`(module (memory 10) (data (i32.const 400000) "data")
          (func $write (param i32) (result i32) (i32.store8 offset=5000 (local.get 0) (i32.const 1)) (i32.const 1))
          (func (export "run") (param $flags i32) (result i32) (local $a i32) (local $b i32) (local $c i32) (local $turns i32)
            ${body} (i32.const 0)))`),
        records,
      )
      const before = Buffer.from(memory.buffer.slice(0))
      for (const each of flags) {
        exports.run?.(each)
        expect(renewal.renew()).toBe(true)
        expect(Buffer.from(memory.buffer).equals(before)).toBe(true)
      }
    }),
    { numRuns: runs(300) },
  )
})

test.each(
  KINDS.flatMap((records) =>
    [
      [
        'by a loop that begins again with another address',
        `(i32.store (local.get $a) (i32.const 1))
         (loop (i32.store (local.get $a) (i32.const 1))
           (local.set $a (i32.sub (local.get $a) (i32.const 50000)))
           (br_if 0 (i32.gt_s (local.get $a) (i32.const 100000))))`,
      ],
      [
        'at an address that was put on the stack before its local was set',
        `(local.get $a) (local.set $a (i32.const 300000)) (i32.store (local.get $a) (i32.const 1))
         (i32.const 1) (i32.store)`,
      ],
      [
        'where another way led past the first write',
        '(block (br_if 0 (local.get $a)) (i32.store (local.get $a) (i32.const 1))) (i32.store (local.get $a) (i32.const 1))',
      ],
      [
        'in the second arm',
        '(if (i32.eqz (local.get $a)) (then (i32.store (local.get $a) (i32.const 1))) (else (i32.store (local.get $a) (i32.const 1))))',
      ],
      [
        'below and above the first write',
        `(i32.store offset=1000 (local.get $a) (i32.const 1)) (i32.store offset=500 (local.get $a) (i32.const 1))
         (i32.store offset=9000 (local.get $a) (i32.const 1)) (i64.store offset=1240 (local.get $a) (i64.const -1))`,
      ],
    ].map(([what = '', body = '']) => [records, what, body] as const),
  ),
)('what is written is restored (%s): %s', (records, _what, body) => {
  const { exports, memory, renewal } = open(
    guestBytes(`(module (memory 10) (data (i32.const 400000) "data")
      (func (export "run") (param $a i32) (result i32) ${body} (i32.const 0)))`),
    records,
  )
  const before = Buffer.from(memory.buffer.slice(0))
  for (const address of [200_000, 203_770, 204_799, 204_800]) {
    exports.run?.(address)
    expect(Buffer.from(memory.buffer).equals(before)).toBe(false)
    expect(renewal.renew()).toBe(true)
    expect(Buffer.from(memory.buffer).equals(before)).toBe(true)
  }
})

test.runIf(hasArrays)('blocks are known by all types that a module may have before that of the marks', () => {
  for (const count of [0, 62, 63, 64, 127, 128, 8_191, 8_192]) {
    const types = Array.from({ length: count }, () => '(type (func))').join('')
    const { exports, memory, renewal } = open(
      guestBytes(
        `(module ${types} (memory 10) (func (export "run") (param i32) (result i32) (i32.store (local.get 0) (i32.const 7)) (i32.const 0)))`,
      ),
    )
    expect(exports[RESET_EXPORT.findWritten]).toBeTypeOf('function')
    exports.run?.(70_000)
    expect(renewal.renew()).toBe(true)
    expect(Buffer.from(memory.buffer).every((byte) => byte === 0)).toBe(true)
  }
})

test.runIf(hasArrays)('a large memory is restored where it was written, though it has grown', () => {
  const { exports, memory, renewal } = open(
    guestBytes(`(module (memory 16 600) (data (i32.const 300000) "d")
      (func (export "fill") (param i32 i32) (result i32)
        (memory.fill (local.get 0) (i32.const 255) (local.get 1)) (i32.const 0))
      (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))`),
  )
  const isNew = () => {
    const bytes = Buffer.from(memory.buffer)
    const written = bytes.findIndex((byte, at) => byte !== 0 && at !== 300_000)
    return written === -1 && bytes[300_000] === 100
  }
  for (const [grown, at, length] of [
    [0, 0, 1_048_576],
    [0, 4_095, 2],
    [0, 299_990, 20],
    [200, 10_000_000, 4_000_000],
    [0, 1, 13_000_000],
  ] as const) {
    exports.grow?.(grown)
    exports.fill?.(at, length)
    expect(renewal.renew()).toBe(true)
    expect(isNew()).toBe(true)
  }
})

test.each([
  ['grows and measures its memory at 1,000 places', 1_000, 0, true],
  ['does so at one more', 1_001, 0, false],
  ['has 199 globals that change, and its pages', 0, 199, true],
  ['has one more', 0, 200, false],
])('a module that %s (%d, %d) can be renewed: %s', (_, places, globals, isResettable) => {
  const changing = '(global (mut i32) (i32.const 1))'.repeat(globals)
  const bytes = guestBytes(`(module (memory 1) ${changing} (func ${'(drop (memory.size))'.repeat(places)}))`)
  expect(resettable(bytes, 'nothing') !== undefined).toBe(isResettable)
})

test.each([
  ['at its end', (size: number) => size - 1],
  ['at its start', () => 0],
  ['before the last KiB', (size: number) => size - 1_025],
])('a memory with data %s is as it was', (_, place) => {
  const at = place(65_536)
  const { exports, memory, renewal } = open(
    guestBytes(`(module (memory 1) (data (i32.const ${at}) "d")
      (func (export "set") (param i32 i32) (result i32) (i32.store8 (local.get 0) (local.get 1)) (i32.const 0)))`),
  )
  const before = Buffer.from(memory.buffer.slice(0))
  expect(before[at]).toBe(100)
  for (const written of [at, 0, 65_535]) exports.set?.(written, 7)
  expect(renewal.renew()).toBe(true)
  expect(Buffer.from(memory.buffer).equals(before)).toBe(true)
})
