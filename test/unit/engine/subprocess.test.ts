import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  FRAME_HEADER_BYTES,
  type Frame,
  FrameReader,
  writeHeader,
} from '../../../src/engine/subprocess/frames.ts'
import { pack, readHostRequest, unpack, writeLine } from '../../../src/engine/subprocess/packed.ts'
import { keepLog } from '../../support/instance.ts'
import { runs } from '../../support/runs.ts'

const data = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(undefined, null, true, false),
    fc.double(),
    fc.string({ unit: 'grapheme' }),
    fc.uint8Array(),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie('value'), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value

test('what is packed is unpacked as it was', () => {
  fc.assert(
    fc.property(data, (value) => {
      expect(unpack(pack(value))).toEqual(value)
    }),
    { numRuns: runs(100) },
  )
})

test('whatever bytes a process sends, they are plain data, or refused', () => {
  const check = (bytes: Uint8Array) => {
    for (const read of [unpack, readHostRequest, (all: Uint8Array) => writeLine(all, 'a.wasm', keepLog())]) {
      try {
        read(bytes)
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError)
      }
    }
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), check), { numRuns: runs(300) })
  const mutated = fc.tuple(data, fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
    const bytes = pack({ service: 'kv', operation: 'get', args: [value] })
    bytes[at % bytes.length] = byte
    return bytes
  })
  fc.assert(fc.property(mutated, check), { numRuns: runs(300) })
})

test.each([
  ['lists', (value: unknown) => [value]],
  ['objects', (value: unknown) => ({ value })],
])('%s are nested up to a limit', (_what, wrap) => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : wrap(nested(levels - 1)))
  expect(unpack(pack(nested(16)))).toEqual(nested(16))
  expect(() => unpack(pack(nested(17)))).toThrow(RangeError)
})

test('no name makes more than a property of plain data', () => {
  const value = unpack(pack(JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}')))
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  expect(Reflect.get({}, 'polluted')).toBeUndefined()
})

test.each([
  ['an operation that every object has', { service: 'kv', operation: 'toString', args: [] }],
  ['a service that every object has', { service: 'constructor', operation: 'get', args: [] }],
  ['an operation of another service', { service: 'kv', operation: 'send', args: ['', ''] }],
  ['a variable that is no bytes', { service: 'vars', operation: 'set', args: ['name', { length: -1e9 }] }],
  ['a name that is no text', { service: 'vars', operation: 'get', args: [1] }],
  [
    'a time that is no number',
    { service: 'kv', operation: 'set', args: [Uint8Array.of(1), Uint8Array.of(1), '1'] },
  ],
  ['too many arguments', { service: 'kv', operation: 'get', args: [Uint8Array.of(1), 1] }],
  ['too few arguments', { service: 'http', operation: 'send', args: [Uint8Array.of(1)] }],
  ['no arguments', { service: 'http', operation: 'send' }],
  ['an operation without a service', { operation: 'send', args: [] }],
  ['text', 'http'],
  ['nothing', null],
  ['a number', 7],
])('a process cannot ask for %s', (_what, request) => {
  expect(() => readHostRequest(pack(request))).toThrow(RangeError)
})

test('a line has no fields but those of lines', () => {
  const log = keepLog()
  writeLine(
    pack(['info', { level: 'fatal', time: 1, plugin: 'other', function: 'run', dropped: 'x' }, 'text']),
    'a.wasm',
    log,
  )
  expect(log.lines).toEqual([
    { level: 'info', fields: { plugin: 'a.wasm', function: 'run' }, message: 'text' },
  ])
  expect(() => writeLine(pack(['constructor', {}, 'text']), 'a.wasm', log)).toThrow(RangeError)
})

const frame = fc.record({
  kind: fc.nat(0xffff),
  instance: fc.nat(0xffff),
  call: fc.nat(0xffff_ffff),
  ms: fc.double({ noNaN: true }),
  payload: fc.uint8Array({ maxLength: 100 }),
})

test('frames are read whole, in whatever pieces they come', () => {
  const check = (frames: readonly Omit<Frame, 'nameBytes'>[], size: number) => {
    const all = frames.map(({ payload, ...head }) => {
      const bytes = Buffer.alloc(FRAME_HEADER_BYTES + payload.length)
      writeHeader(bytes, payload.length, { ...head, nameBytes: 0 })
      bytes.set(payload, FRAME_HEADER_BYTES)
      return bytes
    })
    const bytes = Buffer.concat(all)
    const read: unknown[] = []
    const reader = new FrameReader(100, ({ payload, ...rest }) =>
      read.push({ ...rest, payload: [...payload] }),
    )
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size))
    expect(read).toEqual(
      frames.map(({ payload, ...rest }) => ({ ...rest, nameBytes: 0, payload: [...payload] })),
    )
  }
  fc.assert(fc.property(fc.array(frame, { maxLength: 8 }), fc.integer({ min: 1, max: 300 }), check), {
    numRuns: runs(100),
  })
})

test('a frame that says that it is longer than it may be is refused before its bytes come', () => {
  const header = Buffer.alloc(FRAME_HEADER_BYTES)
  writeHeader(header, 101, { kind: 1, instance: 1, call: 1, nameBytes: 0, ms: 0 })
  expect(() => new FrameReader(100, () => undefined).push(header)).toThrow(RangeError)
})
