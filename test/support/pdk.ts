import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { callableExports } from '../../src/module/entry-points.ts'
import { loadPlugin } from '../../src/plugin/plugin.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import type { Instance, Runtime } from '../../src/runtime/runtime.ts'
import { sdk } from '../../src/runtime/sdk.ts'
import { keptBytes } from './heap.ts'
import { keepLog, openInstance } from './instance.ts'

/** The path of a file in a folder of `plugins`. */
export function pluginFile(folder: string, file: string): string {
  return fileURLToPath(new URL(`../../plugins/${folder}/${file}`, import.meta.url))
}

/** A plug-in: its path or its bytes. */
type Wasm = string | Uint8Array

/** The shared suite of hello, in all languages. */
export function describeHello(name: string, wasm: Wasm): void {
  describe(name, () => {
    offersOnly(wasm, 'hello')

    describe.each(RUNTIMES)('on the $name runtime', (runtime) => {
      test.each(TEXTS)('greets %s in JSON', async (_what, text) => {
        const instance = await openInstance(runtime, wasm)
        expect(await askJson(instance, 'hello', text)).toEqual({ message: `🦀 Hello ${text}` })
      })
    })

    test('answers the same bytes on both runtimes, call after call', async () => {
      const calls = async (runtime: Runtime) => callAll(await openInstance(runtime, wasm), 'hello', TEXTS)
      expect(await calls(kernel)).toEqual(await calls(sdk))
    })

    test.each(NOT_UTF8)('says the same to %s on both runtimes', async (_what, bytes) => {
      const say = async (runtime: Runtime) => callOnce(await openInstance(runtime, wasm), 'hello', bytes)
      expect(await say(kernel)).toEqual(await say(sdk))
    })
  })
}

/** The shared suite of count-vowels, in all languages. */
export function describeCountVowels(name: string, wasm: Wasm): void {
  const count = (instance: Instance, text: string) => askJson(instance, 'count_vowels', text)

  describe(name, () => {
    offersOnly(wasm, 'count_vowels')

    describe.each(RUNTIMES)('on the $name runtime', (runtime) => {
      test('counts the vowels that everybody knows, unless others are configured', async () => {
        const instance = await openInstance(runtime, wasm)
        expect(await count(instance, 'Hello, World!')).toEqual({ count: 3, total: 3, vowels: 'aeiouAEIOU' })
      })

      test.each([
        ['lo', 'Hello, World!', 5],
        ['äöüéy', 'Zürich, Orléans, bicycle', 3],
        ['"\\', 'C:\\"quoted"', 3],
        ['😄', '😄 is a vowel 😄', 2],
      ])('counts the vowels %s when they are configured', async (vowels, text, found) => {
        const instance = await openInstance(runtime, wasm, { config: { vowels } })
        expect(await count(instance, text)).toEqual({ count: found, total: found, vowels })
      })

      test('keeps a total from call to call', async () => {
        const instance = await openInstance(runtime, wasm)
        const reports = []
        for (const text of ['Hello, World!', 'aeiou', '', 'rhythm', 'a'.repeat(65_536)]) {
          reports.push(await count(instance, text))
        }
        expect(reports).toMatchObject([3, 8, 8, 8, 65_544].map((total) => ({ total })))
      })

      test('keeps the totals of two instances apart', async () => {
        const first = await openInstance(runtime, wasm)
        const second = await openInstance(runtime, wasm, { config: { vowels: 'e' } })
        expect(await count(first, 'apple')).toMatchObject({ count: 2, total: 2 })
        expect(await count(second, 'apple')).toMatchObject({ count: 1, total: 1 })
        expect(await count(first, 'pear')).toMatchObject({ count: 2, total: 4 })
        expect(await count(second, 'pear')).toMatchObject({ count: 1, total: 2 })
      })
    })

    test.each([
      {},
      { vowels: '' },
      { vowels: 'xyz' },
    ])('answers the same bytes on both runtimes with the config %j, also after what is no UTF-8', async (config) => {
      const inputs = [...TEXTS, ...NOT_UTF8, ...TEXTS]
      const calls = async (runtime: Runtime) =>
        callAll(await openInstance(runtime, wasm, { config }), 'count_vowels', inputs)
      expect(await calls(kernel)).toEqual(await calls(sdk))
    })
  })
}

/** Tests that an instance of hello can be used any number of times. */
export function describeSteadyHello(name: string, wasm: Wasm): void {
  test(`${name} answers ${CALLS} calls on one instance of the kernel in memory that stays as it is`, async () => {
    const callerOf = (i: number) => `${i} ${'😄'.repeat(i % 50)}`
    await expectSteady(wasm, 'hello', (i) => [callerOf(i), `{"message":"🦀 Hello ${callerOf(i)}"}`])
  })
}

/** Tests that an instance of count-vowels can be used any number of times, and never loses count. */
export function describeSteadyCountVowels(name: string, wasm: Wasm): void {
  test(`${name} counts over ${CALLS} calls on one instance of the kernel in memory that stays as it is`, async () => {
    let total = 0
    await expectSteady(wasm, 'count_vowels', (i) => {
      const count = i % 50
      total += count
      return ['bob '.repeat(count), `{"count":${count},"total":${total},"vowels":"aeiouAEIOU"}`]
    })
  })
}

export const RUNTIMES: readonly Runtime[] = [kernel, sdk]

type NamedValue<Value> = readonly [what: string, value: Value]

const TEXTS: readonly NamedValue<string>[] = [
  ['a name', 'Bob Morane'],
  ['nobody', ''],
  ['quotes', 'Bob "the" Builder'],
  ['backslashes', 'C:\\Bob\\'],
  ['a new line and a tab', 'Bob\r\n\tMorane'],
  ['control characters', '\u0001\u0000\b\f\u001f\u007f'],
  ['letters of two bytes', 'Renée Zoë'],
  ['an emoji', '😄 Bob 👩‍👩‍👧'],
  ['markup', '<Bob> & \u2028'],
  ['64 KiB', 'Bob Morane, who '.repeat(4_096)],
  ['64 KiB that have to be escaped', '"\\\n\u0001'.repeat(16_384)],
]

/** Some PDKs reject these, some replace invalid bytes, some pass them on. */
const NOT_UTF8: readonly NamedValue<Uint8Array>[] = [
  ['a stray byte', Uint8Array.of(0x42, 0xff, 0x6f)],
  ['a letter that was cut off', Uint8Array.of(0x42, 0xf0, 0x9f, 0x98)],
  ['a surrogate', Uint8Array.of(0xed, 0xa0, 0x80)],
  ['an overlong zero', Uint8Array.of(0xc0, 0x80)],
]

/** The bytes of an output, one character each, or the error. */
type Outcome = { readonly output: string } | { readonly code: unknown; readonly message: string }

const caller = { log: keepLog() }

async function callOnce(instance: Instance, name: string, input: string | Uint8Array): Promise<Outcome> {
  try {
    return { output: Buffer.from(await instance.call(name, Buffer.from(input), caller)).toString('latin1') }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { code, message }
  }
}

/** The outcomes of calls, one after the other. */
async function callAll(
  instance: Instance,
  name: string,
  inputs: readonly NamedValue<string | Uint8Array>[],
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const [, input] of inputs) outcomes.push(await callOnce(instance, name, input))
  return outcomes
}

/** The JSON that a call answers. */
async function askJson(instance: Instance, name: string, text: string): Promise<unknown> {
  return JSON.parse(Buffer.from(await instance.call(name, Buffer.from(text), caller)).toString())
}

function offersOnly(wasm: Wasm, name: string): void {
  test(`offers ${name} to be called, and nothing else`, async () => {
    expect(callableExports(await loadPlugin(wasm))).toEqual([name])
  })
}

/** More than ten times the calls after which a runtime that frees nothing runs out of blocks. */
const CALLS = 200_000

/** Go's heap has its final size after 26,000 calls, and then still after two million; others' much sooner. */
const WARM_UP = 50_000

/** In bytes: less than any object that a call could leave behind. */
const MOST_PER_CALL = 4

/** @param exchange - The input of the i-th call, and the output that is right. */
async function expectSteady(
  wasm: Wasm,
  name: string,
  exchange: (i: number) => readonly [input: string, output: string],
): Promise<void> {
  const instance = await openInstance(kernel, wasm)
  const callOn = async (from: number, to: number) => {
    for (let i = from; i < to; i++) {
      const [input, right] = exchange(i)
      const output = Buffer.from(await instance.call(name, Buffer.from(input), caller))
      if (output.toString() !== right) throw new Error(`call ${i} answered ${output}, not ${right}`)
    }
  }
  await callOn(0, WARM_UP)
  const { memoryBytes } = instance
  const kept = await keptBytes()
  await callOn(WARM_UP, WARM_UP + CALLS)
  expect(instance.memoryBytes).toBe(memoryBytes)
  expect(((await keptBytes()) - kept) / CALLS).toBeLessThan(MOST_PER_CALL)
}
