import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { guestBytes } from '../support/guest.ts'

/** How long a mutant may take: one that loops when it starts is not to blame, and cannot be stopped in any other way. */
const LOOP_MS = 5_000

const hello = readFileSync(new URL('../../plugins/hello/hello.wasm', import.meta.url))
const seeds = [hello, ...['upper', 'config', 'wasi', 'several', 'grow', 'log'].map(guestBytes)]

/** Loads modules in a thread, each to what became of it. */
class Laboratory {
  #worker: Worker | undefined

  async load(bytes: Uint8Array): Promise<string> {
    this.#worker ??= new Worker(new URL('../support/load-mutant.mjs', import.meta.url))
    const worker = this.#worker
    const looping = AbortSignal.timeout(LOOP_MS)
    const answered = new AbortController()
    const signal = AbortSignal.any([looping, answered.signal])
    worker.postMessage(bytes)
    try {
      const [outcome] = await Promise.race([
        once(worker, 'message', { signal }),
        once(worker, 'exit', { signal }).then(() => ['the thread ended']),
      ])
      return String(outcome)
    } catch (error) {
      if (!looping.aborted) throw error
      await this.close()
      return 'loops'
    } finally {
      answered.abort() // else each load would leave its listeners on the thread
    }
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
    this.#worker = undefined
  }
}

test('a module with some bytes changed, cut or repeated is loaded or refused, and nothing else happens', async () => {
  const laboratory = new Laboratory()
  onTestFinished(() => laboratory.close())
  const outcomes = new Map<string, number>()

  const edits = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 })
  const mutants = fc
    .tuple(fc.constantFrom(...seeds), edits, fc.option(fc.nat(), { freq: 3 }), fc.boolean())
    .map(([seed, changes, cut, doubled]) => mutate(seed, changes, cut, doubled))

  await fc.assert(
    fc.asyncProperty(mutants, async (mutant) => {
      const outcome = await laboratory.load(mutant)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      expect(outcome).toMatch(/^(?:ok|loops|WASM_SERVE_\w+)$/)
    }),
    { numRuns: 3_000 },
  )
  // The mutants are worth something only if some of them get past the compiler.
  expect([...outcomes.keys()]).toEqual(expect.arrayContaining(['ok', 'WASM_SERVE_PLUGIN_INVALID']))
}, 120_000)

function mutate(
  seed: Uint8Array,
  changes: readonly (readonly [at: number, byte: number])[],
  cut: number | null,
  doubled: boolean,
): Uint8Array {
  const bytes = Uint8Array.from(seed)
  for (const [at, byte] of changes) bytes[8 + (at % (bytes.length - 8))] = byte
  if (cut !== null) return bytes.subarray(0, cut % (bytes.length + 1))
  return doubled && changes.length === 0 ? Buffer.concat([bytes, bytes.subarray(8)]) : bytes
}
