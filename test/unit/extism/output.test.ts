import { describe, expect, test } from 'vitest'
import { PluginOutput } from '../../../src/extism/output.ts'

const outputOf = (...bytes: readonly number[]) => new PluginOutput(Uint8Array.from(bytes).buffer)

describe('an output', () => {
  test('is bytes, a text, JSON and numbers', () => {
    const output = new PluginOutput(new TextEncoder().encode('{"é":1}').buffer)
    expect([output.text(), output.string(), output.json()]).toEqual(['{"é":1}', '{"é":1}', { é: 1 }])
    expect(output.bytes()).toBe(output.bytes())
    expect(output.arrayBuffer()).toBe(output.buffer)
    expect([output.byteLength, output.getUint8(0), output.getUint16(0)]).toEqual([8, 0x7b, 0x7b22])
  })

  test('that is no UTF-8 or no JSON says so', () => {
    expect(outputOf(0xff, 0x61).text()).toBe('\ufffda')
    expect(() => outputOf(0x61).json()).toThrow(SyntaxError)
  })

  test('has no method that writes', () => {
    const output = outputOf(1, 2, 3, 4, 5, 6, 7, 8)
    const names = Object.getOwnPropertyNames(DataView.prototype).filter((name) => name.startsWith('set'))
    expect(names.length).toBeGreaterThan(9)
    for (const name of names)
      expect(() => Reflect.apply(Reflect.get(output, name), output, [0, 1])).toThrow(
        'Cannot set values on output',
      )
    expect([...output.bytes()]).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  })
})

describe('what a host function may have changed', () => {
  test.each<readonly [string, (output: PluginOutput) => unknown]>([
    ['bytes', (output) => output.bytes()],
    ['arrayBuffer', (output) => output.arrayBuffer()],
    ['buffer', (output) => output.buffer],
  ])('is known by %s', (_, take) => {
    const output = outputOf(1, 2)
    expect(PluginOutput.writableBytes(output)).toBeUndefined()
    take(output)
    expect(PluginOutput.writableBytes(output)).toEqual(Uint8Array.of(1, 2))
    expect(PluginOutput.isDetached(output)).toBe(false)
  })

  test('is nothing if it only read', () => {
    const output = outputOf(0x31)
    expect([output.text(), output.json(), output.getUint8(0)]).toEqual(['1', 1, 0x31])
    expect([PluginOutput.writableBytes(output), PluginOutput.isDetached(output)]).toEqual([undefined, false])
  })

  test('is nothing if it gave the buffer away', () => {
    const output = outputOf(1, 2)
    const { buffer } = output
    structuredClone(buffer, { transfer: [buffer] })
    expect([PluginOutput.isDetached(output), PluginOutput.writableBytes(output)]).toEqual([true, undefined])
  })
})
