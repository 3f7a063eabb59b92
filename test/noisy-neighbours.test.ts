import { expect, test } from 'vitest'
import { ask, BYSTANDERS, bystanderRoutes } from './support/faults.ts'
import { file, guest } from './support/guest.ts'
import { startLoad } from './support/load.ts'
import { startServerProcess } from './support/serve-process.ts'

/** Windows of each kind, in turns, and answers of each other route in each. */
const WINDOWS = 3
const ANSWERS = 400

/**
 * How much longer the slowest answers of other routes may take than beside a guest that works as hard and is well. A
 * guest that held the event loop until its deadline would make it a hundred times.
 */
const MAX_RATIO = 8

test.each([
  ['never return', 'L'],
  ['fill all memory and trap', 'M'],
  ['end their thread', 'H'],
])(
  'guests that %s take no more from the other routes than guests that work',
  async (_what, fault) => {
    const functions = file('exit.mjs', 'export default { env: { relay: () => process.exit(1) } }')
    const zoo = { url: '/zoo', plugin: guest('zoo'), functions, workers: 1, timeoutMs: 300 }
    const { url } = await startServerProcess({ routes: [zoo, ...bystanderRoutes()] })
    const p99Beside = async (body: string) => {
      let isOver = false
      const noise = Array.from({ length: 2 }, async () => {
        while (!isOver) await ask(`${url}/zoo`, body)
      })
      const latencies = await Promise.all(BYSTANDERS.map((path) => measure(url + path)))
      isOver = true
      await Promise.all(noise)
      return p99(latencies.flat())
    }
    await p99Beside('W')
    const [beside, besideFault]: [number[], number[]] = [[], []]
    for (let i = 0; i < WINDOWS; i++) {
      beside.push(await p99Beside('W'))
      besideFault.push(await p99Beside(fault))
    }
    expect(median(besideFault) / median(beside)).toBeLessThan(MAX_RATIO)
  },
  120_000,
)

/** How long the answers of a load take, in ms. */
async function measure(url: string): Promise<readonly number[]> {
  const latencies: number[] = []
  const load = startLoad({ url, connections: 4, onAnswer: (_answer, _sent, ms) => latencies.push(ms) })
  await load.answered(ANSWERS)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  return latencies
}

function p99(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
