import { describe, expect, test } from 'vitest'
import { joinBlocks, openKernelBlocks, openSharedBlocks } from '../../../src/extism/kernel-blocks.ts'

const LIMIT = 1_048_576

describe.each([
  ['of one thread', openKernelBlocks],
  ['of two threads', openSharedBlocks],
])('blocks %s', (_, open) => {
  const bytesOf = (buffer: ArrayBuffer | undefined) => buffer && [...new Uint8Array(buffer)]
  const textOf = (buffer: ArrayBuffer | undefined) => buffer && Buffer.from(buffer).toString()

  function opened(limit = LIMIT) {
    const blocks = open(limit)
    const call = (name: string, ...args: readonly bigint[]): bigint => {
      const run = blocks.functions[name]
      if (typeof run !== 'function') throw new Error(`no function ${name}`)
      return BigInt(run(...args) ?? 0)
    }
    const input = () => textOf(blocks.read(call('input_offset')))
    return { blocks, call, input }
  }

  test('have the bytes that were stored', () => {
    const { blocks } = opened()
    const places = [[1, 2, 3], [4], [], [5, 6]].map(
      (bytes) => [blocks.store(Uint8Array.from(bytes)), bytes] as const,
    )
    for (const [at, bytes] of places) {
      expect([bytesOf(blocks.read(at)), blocks.length(at), blocks.lengthOf(at)]).toEqual([
        bytes,
        bytes.length,
        bytes.length,
      ])
      expect(at).not.toBe(0n)
    }
  })

  test('begin where they were made, and nowhere else', () => {
    const { blocks } = opened()
    const at = blocks.alloc(100)
    for (const place of [at + 1n, at + 8n, at - 8n, 2n ** 32n + at, -1n, 2n ** 64n - 1n])
      expect([blocks.lengthOf(place), blocks.length(place), blocks.read(place)]).toEqual([
        undefined,
        0,
        undefined,
      ])
    expect([blocks.lengthOf(0n), bytesOf(blocks.read(0n))]).toEqual([0, []])
    expect(blocks.lengthOf(Number(at))).toBe(100)
  })

  test('are written as a whole, or not at all', () => {
    const { blocks } = opened()
    const [at, next] = [blocks.store(Uint8Array.of(1, 2)), blocks.store(Uint8Array.of(3, 4))]
    blocks.write(at, Uint8Array.of(7, 8))
    for (const bytes of [[9], [9, 9, 9], []]) blocks.write(at, Uint8Array.from(bytes))
    blocks.write(at + 1n, Uint8Array.of(9, 9))
    expect([bytesOf(blocks.read(at)), bytesOf(blocks.read(next))]).toEqual([
      [7, 8],
      [3, 4],
    ])
  })

  test('have a limit, and sizes that are none are no blocks', () => {
    const { blocks } = opened(100_000)
    for (const size of [-1, Number.NaN, 2 ** 32, 200_000]) expect(blocks.alloc(size)).toBe(0n)
    expect(blocks.store(new Uint8Array(200_000))).toBe(0n)
    expect(blocks.alloc(50_000)).not.toBe(0n)
  })

  test.each([
    ['nothing', ''],
    ['a text', 'héllo'],
    ['a long text', 'é'.repeat(5_000)],
    ['bytes', Buffer.from('bytes')],
    ['a page of bytes', Buffer.alloc(4_096, 'b')],
    ['more than the memory has at first', Buffer.alloc(300_000, 'c')],
  ])('an input that is %s is what the guest reads', (_what, value) => {
    const { blocks, call, input } = opened()
    blocks.input(value)
    expect(call('input_length')).toBe(BigInt(Buffer.byteLength(value)))
    expect(input()).toBe(String(value))
    blocks.settleInput()
    expect(input()).toBe(String(value))
  })

  test('an input beyond the limit is refused, and the next one is taken', () => {
    const { blocks, input } = opened(100_000)
    for (const value of [new Uint8Array(200_000), 'a'.repeat(200_000)])
      expect(() => blocks.input(value)).toThrow(
        expect.objectContaining({ code: 'WASM_SERVE_EXTISM_INPUT_TOO_LARGE' }),
      )
    blocks.reset()
    blocks.input('small')
    expect(input()).toBe('small')
  })

  test('an output is none until there is one, which may be empty', () => {
    const { blocks, call } = opened()
    expect(blocks.output()).toBeUndefined()
    const at = blocks.store(Buffer.from('output'))
    call('output_set', at, 3n)
    expect(textOf(blocks.output())).toBe('out')
    call('output_set', 0n, 0n)
    expect(textOf(blocks.output())).toBe('')
    blocks.reset()
    expect(blocks.output()).toBeUndefined()
  })

  test('an output may be the input', () => {
    const { blocks, call } = opened()
    blocks.input(Buffer.alloc(5_000, 'd'))
    call('output_set', call('input_offset'), 5_000n)
    expect(textOf(blocks.output())).toBe('d'.repeat(5_000))
  })

  test('an error is none until there is one', () => {
    const { blocks, call } = opened()
    expect(blocks.error()).toBeUndefined()
    blocks.setError(blocks.store(Buffer.from('wröng')))
    expect(blocks.error()).toBe('wröng')
    blocks.reset()
    expect(blocks.error()).toBeUndefined()
    call('error_set', blocks.store(Buffer.from('by the guest')))
    expect(blocks.error()).toBe('by the guest')
  })

  test('nothing is left of the last call', () => {
    const { blocks, input } = opened()
    blocks.input('secret')
    const at = blocks.store(Buffer.from('secret'))
    blocks.reset()
    expect([blocks.lengthOf(at), input()]).toEqual([undefined, ''])
    expect(bytesOf(blocks.read(blocks.alloc(1_000)))).toEqual(Array(1_000).fill(0))
  })

  test('a block that is taken is gone, and its room is used again last', () => {
    const { blocks, call } = opened()
    const at = blocks.store(Buffer.from('taken'))
    blocks.take(at)
    expect([blocks.lengthOf(at), blocks.read(at)]).toEqual([undefined, undefined])
    call('free', at) // as some PDKs do
    blocks.take(at)
    const others = Array.from({ length: 50 }, () => blocks.store(Buffer.from('other')))
    expect(others).not.toContain(at)
    expect([blocks.reuseTaken(), blocks.reuseTaken()]).toEqual([true, false])
    expect(Array.from({ length: 50 }, () => blocks.alloc(5))).toContain(at)
    for (const other of others) expect(textOf(blocks.read(other))).toBe('other')
  })

  test('blocks that are taken are used again when there is no other room', () => {
    const { blocks } = opened(65_536)
    const rounds = Array.from({ length: 100 }, () => {
      const at = blocks.alloc(30_000)
      blocks.take(at)
      return at
    })
    expect(rounds).not.toContain(0n)
  })

  test('an input cannot be taken', () => {
    const { blocks, call, input } = opened()
    blocks.input('input')
    blocks.take(call('input_offset'))
    expect(input()).toBe('input')
  })
})

test('another thread sees the same blocks', () => {
  const blocks = openSharedBlocks(LIMIT)
  const other = joinBlocks(blocks.memory)
  const at = blocks.store(Buffer.alloc(200_000, 'e'))
  expect(other.length(at)).toBe(200_000)
  const next = other.store(Buffer.from('of the other'))
  expect(Buffer.from(blocks.read(next) ?? new ArrayBuffer(0)).toString()).toBe('of the other')
})
