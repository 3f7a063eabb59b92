import { assembleGuest } from './guest.ts'
import { renderNumber } from './origin.ts'
import { renderRange, summarize, verdict, verdictOn } from './report.ts'
import { CALLER, kernel, load, loadPlugin, SETTINGS } from './shipped.ts'
import { median, percentile } from './statistics.ts'

/** Calls of one export with one input, on both runtimes. */
interface CallCase {
  readonly name: string
  readonly plugin: string | Uint8Array
  readonly exportName: string
  readonly input: Uint8Array
  /** Minimum speed of the kernel as a multiple of the SDK's. */
  readonly floor: number
}

/** Microseconds per call: the medians of the rounds. */
export interface CallMeasurement {
  readonly name: string
  readonly sdkMicros: number
  readonly kernelMicros: number
  /** The median of the rounds' ratios: how many times faster the kernel is. */
  readonly ratio: number
  readonly floor: number
  readonly rounds: readonly { readonly sdk: number; readonly kernel: number }[]
}

export interface CallsMeasurements {
  readonly calls: readonly CallMeasurement[]
  readonly openings: readonly OpeningMeasurement[]
}

/** Instances on the kernel that live for one call. */
export interface OpeningMeasurement {
  readonly plugin: string
  /** The opening alone. */
  readonly p50Ms: number
  readonly p99Ms: number
  /** CPU time of an instance's life, with one call, and with all threads of the process: garbage is theirs too. */
  readonly cpuMicros: number
}

type Instance = import('../src/runtime/runtime.ts').Instance

const { sdk } = (await load('runtime/sdk.js')) as typeof import('../src/runtime/sdk.ts')

const HELLO = 'plugins/hello/hello.wasm'

const SMALL = Buffer.from('8 letter')

/** Measures calls, and the opening of instances for a single call. @throws errors of {@link measureRuntimes}. */
export async function measureCalls(
  rounds: number,
  progress: (line: string) => void,
): Promise<CallsMeasurements> {
  const names = (await cases()).map(({ name }) => name)
  const calls = await measureRuntimes(names, rounds, progress)
  const openings: OpeningMeasurement[] = []
  for (const path of OPENED) {
    for (const isolation of ['reuse', 'fresh'] as const) openings.push(await measureOpening(path, isolation))
  }
  return { calls, openings }
}

/**
 * Measures calls in this process, without HTTP, the runtimes in turns.
 *
 * @param names - Of cases.
 * @param rounds - That count; some more warm up.
 * @throws when the runtimes do not answer the same.
 */
export async function measureRuntimes(
  names: readonly string[],
  rounds: number,
  progress: (line: string) => void,
): Promise<CallMeasurement[]> {
  const calls: CallMeasurement[] = []
  for (const each of await cases()) {
    if (!names.includes(each.name)) continue
    const measured = await measureCase(each, rounds)
    calls.push(measured)
    progress(`${measured.name}: kernel ${renderNumber(measured.ratio, 1)} times as fast as sdk`)
  }
  return calls
}

async function cases(): Promise<CallCase[]> {
  const copy = await assembleGuest('copy')
  const vowels = 'plugins/count-vowels-rust/count-vowels.wasm'
  const large = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => (i * 31) & 0xff)
  return [
    { name: 'hello, 8 B', plugin: HELLO, exportName: 'hello', input: SMALL, floor: 3 },
    { name: 'count-vowels, 8 B', plugin: vowels, exportName: 'count_vowels', input: SMALL, floor: 3 },
    { name: 'copy, 64 KiB', plugin: copy, exportName: 'copy', input: large(65_536), floor: 8 },
    { name: 'copy, 1 MiB', plugin: copy, exportName: 'copy', input: large(1_048_576), floor: 12 },
  ]
}

async function measureCase(
  { name, plugin, exportName, input, floor }: CallCase,
  rounds: number,
): Promise<CallMeasurement> {
  const instances = [
    await sdk.open(await loadPlugin(plugin, { runtime: 'sdk' }), SETTINGS),
    kernel.open(await loadPlugin(plugin), SETTINGS),
  ] as const
  const [ofSdk, ofKernel] = instances
  try {
    await callMany(ofSdk, exportName, input, WARM_UP_CALLS)
    await callMany(ofKernel, exportName, input, WARM_UP_CALLS)
    // Equally many for both, because a guest may count its calls and answer with the number.
    const perCall = (await callMany(ofSdk, exportName, input, WARM_UP_CALLS)).micros
    await callMany(ofKernel, exportName, input, WARM_UP_CALLS)
    const count = Math.ceil(ROUND_MICROS / perCall)

    const measured: { sdk: number; kernel: number }[] = []
    for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
      const first = await callMany(ofSdk, exportName, input, count)
      const second = await callMany(ofKernel, exportName, input, count)
      if (!Buffer.from(first.output).equals(second.output)) throw new Error(`${name}: the answers differ`)
      if (round >= 0) measured.push({ sdk: first.micros, kernel: second.micros })
    }
    return {
      name,
      sdkMicros: median(measured.map((round) => round.sdk)),
      kernelMicros: median(measured.map((round) => round.kernel)),
      ratio: median(measured.map((round) => round.sdk / round.kernel)),
      floor,
      rounds: measured,
    }
  } finally {
    await Promise.all(instances.map((instance) => instance.close()))
  }
}

const WARM_UP_CALLS = 20

/** V8 optimizes a guest only after many calls. */
const WARM_UP_ROUNDS = 5

/** The length of a round of calls on the SDK. */
const ROUND_MICROS = 100_000

/** Waits for a call only where it must, as the engine does. */
async function callMany(instance: Instance, exportName: string, input: Uint8Array, count: number) {
  let output = new Uint8Array()
  const start = performance.now()
  for (let i = 0; i < count; i++) {
    const answer = instance.call(exportName, input, CALLER)
    output = (answer instanceof Promise ? await answer : answer) as Uint8Array<ArrayBuffer>
  }
  return { micros: ((performance.now() - start) * 1_000) / count, output }
}

async function measureOpening(path: string, isolation: 'reuse' | 'fresh'): Promise<OpeningMeasurement> {
  const plugin = await loadPlugin(path, { isolation })
  const times: number[] = []
  let cpu = process.cpuUsage()
  for (let i = -WARM_UP_OPENINGS; i < OPENINGS; i++) {
    if (i === 0) cpu = process.cpuUsage()
    const start = performance.now()
    const instance = kernel.open(plugin, SETTINGS)
    if (i >= 0) times.push(performance.now() - start)
    instance.call('hello', SMALL, CALLER)
    await instance.close()
  }
  const { user, system } = process.cpuUsage(cpu)
  return {
    plugin: `${path.replace('plugins/', '')}, ${isolation === 'fresh' ? 'put back' : 'new'}`,
    p50Ms: percentile(times, 50),
    p99Ms: percentile(times, 99),
    cpuMicros: (user + system) / OPENINGS,
  }
}

/** The first grows its memory in each call, the second does not. */
const OPENED = [HELLO, 'plugins/hello-c/hello.wasm']

const WARM_UP_OPENINGS = 500
const OPENINGS = 5_000

/** Maximum time to open an instance, in ms. */
const OPENING_FLOOR_MS = 0.15

export function renderCalls({ calls, openings }: CallsMeasurements): string {
  const rows = calls.map(({ name, sdkMicros, kernelMicros, floor, rounds }) => {
    const faster = summarize(rounds.map((round) => round.sdk / round.kernel))
    const cells = [
      name,
      renderNumber(faster.median, 1),
      renderRange(faster, 1),
      floor,
      verdictOn(faster, floor, faster.median >= floor),
      renderNumber(sdkMicros, 2),
      renderNumber(kernelMicros, 2),
    ]
    return `| ${cells.join(' | ')} |`
  })
  const opened = openings.map(({ plugin, p50Ms, p99Ms, cpuMicros }) => {
    const numbers = [renderNumber(p50Ms, 3), renderNumber(p99Ms, 3), renderNumber(cpuMicros, 1)]
    return `| ${[plugin, ...numbers, OPENING_FLOOR_MS, verdict(p50Ms <= OPENING_FLOOR_MS)].join(' | ')} |`
  })
  return [
    '| call | times as fast | 95 % interval | limit | | sdk µs | kernel µs |',
    '| --- | ---: | ---: | ---: | --- | ---: | ---: |',
    ...rows,
    '',
    '| instance | opened in p50 ms | p99 ms | CPU µs, with a call | limit of p50 ms | |',
    '| --- | ---: | ---: | ---: | ---: | --- |',
    ...opened,
  ].join('\n')
}
