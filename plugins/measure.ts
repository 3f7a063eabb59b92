import { CALLER, kernel, loadPlugin, SETTINGS } from '../bench/shipped.ts'
import { median } from '../bench/statistics.ts'
import { type ExamplePlugin, wasmPath } from './plugins.ts'

/** CPU time on the kernel runtime, in this process, without HTTP; that of all threads, garbage is theirs too. */
export interface Times {
  /** Opening an instance of a plug-in that is compiled, closing and collecting it. */
  readonly opening: number
  /** A call of an instance that has made thousands. */
  readonly call: number
}

type Instance = import('../src/runtime/runtime.ts').Instance

/**
 * Measures the hellos in turns, round after round.
 *
 * @param reference - One of them.
 * @returns for each the medians, over the rounds, of its times divided by those of the reference in the same round: a
 * slow moment of the machine slowed both.
 */
export async function measureHellos(
  hellos: readonly ExamplePlugin[],
  reference: ExamplePlugin,
): Promise<Map<ExamplePlugin, Times>> {
  const running = await Promise.all(hellos.map(start))
  for (const { instance } of running) callMany(instance, WARM_UP_CALLS)

  const rounds: Map<ExamplePlugin, Times>[] = []
  for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
    const times = new Map<ExamplePlugin, Times>()
    for (const { hello, open, instance } of running) {
      times.set(hello, {
        opening: await cpuTime(() => openMany(open)),
        call: await cpuTime(() => callMany(instance, CALLS)),
      })
    }
    if (round >= 0) rounds.push(times)
  }
  await Promise.all(running.map(({ instance }) => instance.close()))

  const ratio = (hello: ExamplePlugin, key: keyof Times) =>
    median(rounds.map((times) => (times.get(hello)?.[key] ?? NaN) / (times.get(reference)?.[key] ?? NaN)))
  return new Map(
    hellos.map((hello) => [hello, { opening: ratio(hello, 'opening'), call: ratio(hello, 'call') }]),
  )
}

export const ROUNDS = 21
const WARM_UP_ROUNDS = 3
const WARM_UP_CALLS = 20_000
const CALLS = 20_000
const OPENINGS = 100

const INPUT = Buffer.from('😄 Bob Morane')

async function start(hello: ExamplePlugin) {
  const plugin = await loadPlugin(wasmPath(hello))
  const open = () => kernel.open(plugin, SETTINGS)
  return { hello, open, instance: await open() }
}

/** @returns Microseconds. Other processes that keep the cores busy count little, unlike in the time of a clock. */
async function cpuTime(work: () => void | Promise<void>): Promise<number> {
  const start = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(start)
  return user + system
}

async function openMany(open: () => Instance | Promise<Instance>): Promise<void> {
  for (let i = 0; i < OPENINGS; i++) {
    const instance = await open()
    await instance.close()
  }
}

/** The kernel's calls have ended when they return. */
function callMany(instance: Instance, count: number): void {
  for (let i = 0; i < count; i++) instance.call('hello', INPUT, CALLER)
}
