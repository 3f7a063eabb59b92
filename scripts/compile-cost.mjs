/*
 * node scripts/compile-cost.mjs: how long V8 takes for functions at the limits of src/module/limits.ts, in seconds of
 * CPU: the first call, and optimising. JavaScript, so that each version of Node.js can run it.
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

/** Code of a function with so many locals, each about at one limit. */
const CASES = {
  'functionWork: branches': (locals = 1_000, count = 6_000) => ({
    locals,
    code: [setAll(locals), repeat(count, () => [0x02, 0x40, 0x20, 0, 0x0d, 0, 0x0b]), useAll(locals)],
  }),
  'functionWork: ifs in one another': (locals = 1_000, count = 9_500) => ({
    locals,
    code: [
      setAll(locals),
      repeat(count, () => [0x20, 0, 4, 0x40]),
      Buffer.alloc(count, 0x0b),
      useAll(locals),
    ],
  }),
  'functionWork: ifs that set locals': (locals = 1_000, count = 9_500) => ({
    locals,
    code: [
      repeat(count, (place) => [
        ...[0x20, 0, 4, 0x40, 0x20, ...leb((place * 7 + 1) % locals)],
        ...[0x41, 1, 0x6a, 0x21, ...leb(place % locals), 0x0b],
      ]),
      useAll(locals),
    ],
  }),
  'walk: locals that are set': (locals = 9_900, count = 16_000) => ({
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
  callValues: (count = 2_900) => ({
    locals: 0,
    values: 256,
    code: [repeat(count, () => [0x10, 1, 0x10, 2])],
  }),
  joins: (locals = 3_000, count = 3_000) => ({
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
  functionBytes: (count = 740_000) => ({
    locals: 0,
    code: [repeat(count, (place) => [0x20, 0, 0x20, 0, 0x36, 2, ...leb(128 + (place % 16_000))])],
  }),
}

function moduleOf({ locals, values, code }) {
  const many = Array(values ?? 0).fill(I32)
  const types = [
    [0x60, 1, I32, 0],
    [0x60, 0, ...leb(many.length), ...many],
    [0x60, ...leb(many.length), ...many, 0],
  ]
  const body = Buffer.concat([
    Buffer.from(locals ? [1, ...leb(locals), I32] : [0]),
    ...code,
    Buffer.from([0x0b]),
  ])
  const bodies = [body, Buffer.from([0, 0, 0x0b]), Buffer.from([0, 0x0b])]
  return Buffer.concat([
    Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]),
    section(1, Buffer.concat([Buffer.from([3]), ...types.map((type) => Buffer.from(type))])),
    section(3, Buffer.from([3, 0, 1, 2])),
    section(5, Buffer.from([1, 1, 1, 1])),
    section(7, Buffer.from([1, 1, 0x66, 0, 0])),
    section(
      10,
      Buffer.concat([
        Buffer.from([3]),
        ...bodies.map((each) => Buffer.concat([Buffer.from(leb(each.length)), each])),
      ]),
    ),
  ])
}

/** Seconds of CPU of the first call. */
async function measure(name) {
  const module = await WebAssembly.compile(moduleOf(CASES[name]()))
  const { exports } = new WebAssembly.Instance(module)
  const before = process.cpuUsage()
  try {
    exports.f(0)
  } catch {
    // it traps: it is compiled all the same
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

const [, , only] = process.argv
if (only !== undefined) {
  process.stdout.write((await measure(only)).toFixed(2))
} else {
  process.stdout.write(`Node.js ${process.version}: seconds of CPU of the first call, and of optimising\n`)
  for (const name of Object.keys(CASES)) {
    const [first, optimised] = ['--liftoff-only', '--no-liftoff'].map((flag) =>
      execFileSync(process.execPath, [flag, fileURLToPath(import.meta.url), name], { encoding: 'utf8' }),
    )
    process.stdout.write(`${name.padEnd(36)}${first.padStart(8)}${optimised.padStart(8)}\n`)
  }
}
