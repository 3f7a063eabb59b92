/*
 * node scripts/compile-cost.mjs: what V8 takes for functions at the limits of src/module/limits.ts: seconds of CPU of
 * the first call and of optimising, and MiB of memory of optimising, beside those of Node.js. JavaScript, so that each
 * version of Node.js can run it. `--module CASE` writes a module, and `--optimise CASE` measures one.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const I32 = 0x7f

/** A number as LEB128. */
function leb(value) {
  const bytes = []
  let rest = value
  do {
    bytes.push((rest & 127) | (rest > 127 ? 128 : 0))
    rest >>>= 7
  } while (rest > 0)
  return bytes
}

const section = (id, content) => Buffer.concat([Buffer.from([id, ...leb(content.length)]), content])
const repeat = (count, item) =>
  Buffer.concat(Array.from({ length: count }, (_, place) => Buffer.from(item(place))))
const setAll = (locals) => repeat(locals, (place) => [0x20, 0, 0x21, ...leb(place + 1)])
/** Writes the sum of all locals to memory, so that nothing of them can be left out. */
const useAll = (locals) =>
  Buffer.concat([
    Buffer.from([0x41, 0, 0x41, 0]),
    repeat(locals, (place) => [0x20, ...leb(place + 1), 0x6a]),
    Buffer.from([0x36, 2, 0]),
  ])

/** Returns if the memory begins with zeros, which it does: the function is compiled, and not run. */
const RETURN = Buffer.from([0x41, 0, 0x28, 2, 0, 0x45, 4, 0x40, 0x0f, 0x0b])

/** Code of a function with so many locals, each about at one limit. */
const CASES = {
  'functionWork: branches': (locals = 1_000, count = 4_800) => ({
    locals,
    code: [setAll(locals), repeat(count, () => [0x02, 0x40, 0x20, 0, 0x0d, 0, 0x0b]), useAll(locals)],
  }),
  'functionWork: ifs in one another': (locals = 1_000, count = 5_000) => ({
    locals,
    code: [
      setAll(locals),
      repeat(count, () => [0x20, 0, 4, 0x40]),
      Buffer.alloc(count, 0x0b),
      useAll(locals),
    ],
  }),
  'functionWork: ifs that set locals': (locals = 1_000, count = 5_500) => ({
    locals,
    code: [
      repeat(count, (place) => [
        ...[0x20, 0, 4, 0x40, 0x20, ...leb((place * 7 + 1) % locals)],
        ...[0x41, 1, 0x6a, 0x21, ...leb(place % locals), 0x0b],
      ]),
      useAll(locals),
    ],
  }),
  'walk: locals that are set': (locals = 9_900, count = 14_000) => ({
    locals,
    code: [
      repeat(count, (place) => [0x20, 0, 0x41, 1, 0x6a, 0x21, ...leb(1 + (place % locals))]),
      useAll(locals),
    ],
  }),
  'walk: values on the stack': (height = 4_900, count = 38_000) => ({
    locals: 20,
    code: [
      repeat(height, (place) => [0x20, place % 20]),
      repeat(count, (place) => [0x20, 0, 0x41, 1, 0x6a, 0x21, place % 20]),
      Buffer.alloc(height, 0x1a),
    ],
  }),
  callValues: (count = 1_250) => ({
    locals: 0,
    values: 256,
    code: [repeat(count, () => [0x10, 1, 0x10, 2])],
  }),
  joins: (locals = 2_100, count = 2_100) => ({
    locals,
    code: [
      setAll(locals),
      Buffer.from([2, 0x40]),
      repeat(count, (place) => [
        0x20,
        0,
        0x41,
        1,
        0x6a,
        0x21,
        ...leb(1 + (place % locals)),
        0x20,
        0,
        0x0d,
        0,
      ]),
      Buffer.from([0x0b]),
      useAll(locals),
    ],
  }),
  loopJoins: (locals = 440, count = 440) => ({
    locals,
    code: [
      Buffer.from([3, 0x40]),
      repeat(locals, (place) => [0x20, ...leb(place), 0x41, 1, 0x6a, 0x21, ...leb(place + 1)]),
      repeat(count, () => [0x20, 0, 0x0d, 0]),
      Buffer.from([0x0b]),
      useAll(locals),
    ],
  }),
  loopBytes: (count = 1_600) => ({
    locals: 10,
    code: [
      repeat(count, () => [3, 0x40]),
      repeat(count, (place) => [0x20, 0, 0x21, 1 + (place % 10), 0x20, 0, 0x0d, 0, 0x0b]),
      useAll(10),
    ],
  }),
  'optimisingBytes: stores': (count = 370_000) => ({
    locals: 0,
    code: [repeat(count, (place) => [0x20, 0, 0x20, 0, 0x36, 2, ...leb(128 + (place % 16_000))])],
  }),
  'optimisingBytes: calls': (count = 300_000) => ({ locals: 0, code: [repeat(count, () => [0x10, 3])] }),
  'optimisingBytes: divisions': (count = 94_000) => ({
    locals: 1,
    code: [repeat(count, () => [0x41, 7, 0x20, 0, 0x6d, 0x21, 0]), useAll(1)],
  }),
  'optimisingBytes: saturating conversions': (count = 38_000) => ({
    locals: 1,
    code: [repeat(count, () => [0x20, 0, 0xb2, 0xfc, 0, 0x21, 0]), useAll(1)],
  }),
  'optimisingBytes: loops': (count = 6_900) => ({
    locals: 10,
    code: [
      RETURN,
      setAll(10),
      repeat(count, () => [3, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b]),
      useAll(10),
    ],
  }),
  'optimisingBytes: branches to a loop': (count = 3_300) => ({
    locals: 1,
    code: [
      RETURN,
      Buffer.from([3, 0x40]),
      repeat(count, () => [0x20, 0, 0x41, 1, 0x6a, 0x22, 0, 0x0d, 0]),
      Buffer.from([0x0b]),
      useAll(1),
    ],
  }),
  'optimisingBytes: joined conditions': (count = 1_800) => ({
    locals: 1,
    code: [repeat(count, () => [0x20, 0, 4, 0x40, 0x20, 0, 0x41, 1, 0x6a, 0x21, 0, 0x0b]), useAll(1)],
  }),
  'optimisingBytes: clauses that catch': (count = 2_900) => ({
    locals: 0,
    code: [Buffer.from([6, 0x40, 0x10, 3]), repeat(count, () => [7, 0, 0x1a]), Buffer.from([0x0b])],
  }),
  'optimisingBytes: ifs that leave a block': (count = 4_900) => ({
    locals: 1,
    code: [
      Buffer.from([2, 0x40]),
      repeat(count, (place) => [0x20, 0, 0x41, ...leb(place), 0x46, 4, 0x40, 0x0c, 1, 0x0b]),
      Buffer.from([0x0b]),
    ],
  }),
  'optimisingBytes: ifs': (count = 31_000) => ({
    locals: 1,
    code: [
      repeat(count, () => [
        ...[0x20, 0, 0x41, 1, 0x6a, 0x21, 0],
        ...[0x41, 0, 0x28, 2, 0, 4, 0x40, 0x41, 0, 0x20, 0, 0x36, 2, 0, 0x0b],
      ]),
    ],
  }),
  'optimisingBytes: values in each branch': (count = 31_000) => ({
    locals: 1,
    code: [
      repeat(count, () => [
        ...[0x20, 0, 0x20, 1, 0x6a, 0x21, 0],
        ...[0x41, 0, 0x28, 2, 0, 4, 0x40, 0x41, 0, 0x20, 0, 0x36, 2, 0, 0x0b],
      ]),
    ],
  }),
}

/** What `boundOptimiser` of src/platform/node-workarounds.ts sets; and all functions are optimised at once. */
const OPTIMISED = [
  '--wasm-num-compilation-tasks=1',
  '--no-turbo-splitting',
  '--no-liftoff',
  '--no-wasm-lazy-compilation',
]

function moduleOf({ locals, values, code }) {
  const many = Array(values ?? 0).fill(I32)
  const types = [
    [0x60, 1, I32, 0],
    [0x60, 0, ...leb(many.length), ...many],
    [0x60, ...leb(many.length), ...many, 0],
    [0x60, 0, 0],
  ]
  const body = Buffer.concat([
    Buffer.from(locals ? [1, ...leb(locals), I32] : [0]),
    ...code,
    Buffer.from([0x0b]),
  ])
  const results = Buffer.from([0, ...many.flatMap(() => [0x41, 1]), 0x0b])
  // The last one is too long to be inlined, so that calls of it stay.
  const long = Buffer.concat([Buffer.from([0]), Buffer.alloc(6_000, 1), Buffer.from([0x0b])])
  const bodies = [body, results, Buffer.from([0, 0x0b]), long]
  return Buffer.concat([
    Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
    section(1, Buffer.concat([Buffer.from([4]), ...types.map((type) => Buffer.from(type))])),
    section(3, Buffer.from([4, 0, 1, 2, 3])),
    section(5, Buffer.from([1, 1, 1, 1])),
    section(13, Buffer.from([1, 0, 0])),
    section(7, Buffer.from([1, 1, 0x66, 0, 0])),
    section(
      10,
      Buffer.concat([
        Buffer.from([4]),
        ...bodies.map((each) => Buffer.concat([Buffer.from(leb(each.length)), each])),
      ]),
    ),
  ])
}

/** Seconds of CPU of the first call, and MiB. */
function measure(name) {
  const bytes = moduleOf(CASES[name]())
  const memory = process.resourceUsage().maxRSS
  const before = process.cpuUsage()
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes))
  try {
    exports.f(0)
  } catch {
    // it traps: it is compiled all the same
  }
  const { user, system } = process.cpuUsage(before)
  return [(user + system) / 1e6, (process.resourceUsage().maxRSS - memory) / 1024]
}

/** @returns seconds of CPU, and MiB, in a process with these flags. */
function measureApart(name, flags) {
  const words = [...flags, fileURLToPath(import.meta.url), name]
  return execFileSync(process.execPath, words, { encoding: 'utf8' }).split(' ').map(Number)
}

const [, , only, name] = process.argv
if (only === '--module') {
  process.stdout.write(moduleOf(CASES[name]()))
} else if (only === '--optimise') {
  process.stdout.write(measureApart(name, OPTIMISED).join(' '))
} else if (only !== undefined) {
  process.stdout.write(
    measure(only)
      .map((number) => number.toFixed(2))
      .join(' '),
  )
} else {
  process.stdout.write(`Node.js ${process.version}: s of the first call, s and MiB of optimising\n`)
  for (const name of Object.keys(CASES)) {
    const [first] = measureApart(name, ['--liftoff-only'])
    const [seconds, mebibytes] = measureApart(name, OPTIMISED)
    const numbers = [first.toFixed(2), seconds.toFixed(2), mebibytes.toFixed(0)]
    process.stdout.write(`${name.padEnd(44)}${numbers.map((text) => text.padStart(8)).join('')}\n`)
  }
}
