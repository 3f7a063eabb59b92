import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Ring } from '../../../src/engine/workers/ring.ts'

const CAPACITY = 256

test('what was written is read, in its order, as long as there is room', () => {
  const write = fc.record({
    length: fc.nat(96),
    detail: fc.integer({ min: -1000, max: 1000 }),
    ms: fc.double(),
  })
  fc.assert(
    fc.property(fc.array(fc.option(write), { maxLength: 400 }), (steps) => {
      const buffer = Ring.allocate(CAPACITY)
      const [writer, reader] = [new Ring(buffer), new Ring(buffer)]
      const expected: unknown[] = []
      for (const [call, step] of steps.entries()) {
        if (step) {
          const payload = Buffer.alloc(step.length, call)
          const hadRoom = writer.hasRoom(step.length, 0)
          const isWritten = writer.write(1, call, step.detail, step.ms, payload)
          if (hadRoom) expect(isWritten).toBe(true)
          if (isWritten)
            expected.push({ kind: 1, call, detail: step.detail, ms: step.ms, payload: [...payload] })
          else expect(expected).not.toEqual([]) // one of half its size fits into an empty ring
        } else {
          const record = reader.peek()
          expect(record && { ...record, payload: [...record.payload] }).toEqual(expected.shift())
          if (record) reader.release(record)
        }
        expect(reader.isEmpty).toBe(expected.length === 0)
      }
    }),
  )
})

test('positions may go beyond 32 bits', () => {
  const buffer = Ring.allocate(CAPACITY)
  new Int32Array(buffer, 0, 2).fill(0x7fff_ff00)
  const [writer, reader] = [new Ring(buffer), new Ring(buffer)]
  for (let call = 0; call < 100; call++) {
    expect(writer.write(1, call, 0, 0, Buffer.from('payload'))).toBe(true)
    const record = reader.peek()
    expect(record?.call).toBe(call)
    if (record) reader.release(record)
  }
})

test('what does not fit is refused, and spoils nothing', () => {
  const ring = new Ring(Ring.allocate(CAPACITY))
  expect(ring.write(1, 1, 0, 0, Buffer.alloc(CAPACITY))).toBe(false)
  expect(ring.write(1, 2, 0, 0, Buffer.alloc(200))).toBe(true)
  expect(ring.write(1, 3, 0, 0, Buffer.alloc(100))).toBe(false)
  expect(ring.peek()?.call).toBe(2)
})
