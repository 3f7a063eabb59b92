import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { renderNumber } from './origin.ts'
import { CALLER, load } from './shipped.ts'

/** Measures the memory of an engine during many calls. */
export interface SoakMeasurement {
  readonly engine: string
  readonly seconds: number
  /** Resident memory of the process when it was warm, in MiB. */
  readonly warmMib: number
  /** Growth in a million calls: least squares over the samples, in MiB. */
  readonly slopeMib: number
  /** Resources that kept the event loop alive before the engine was opened, and after it was closed. */
  readonly handles: readonly [before: readonly string[], after: readonly string[]]
  readonly samples: readonly Sample[]
}

interface Sample {
  readonly calls: number
  readonly rssMib: number
}

type Engine = import('../src/engine/engine.ts').Engine
type RouteOptions = import('../src/index.ts').RouteOptions

const { checkWasmServeOptions } = (await load(
  'options/options.js',
)) as typeof import('../src/options/options.ts')
const { chooseRoute, loadRoutePlugin, openRoute } = (await load(
  'route/open-route.js',
)) as typeof import('../src/route/open-route.ts')
const { openAppResources } = (await load(
  'route/app-resources.js',
)) as typeof import('../src/route/app-resources.ts')
const { openLog } = (await load('observe/log/log.js')) as typeof import('../src/observe/log/log.ts')

/** A guest that does not grow its memory, so that any growth is in the host. */
const PLUGIN = 'plugins/hello-c/hello.wasm'

const ENGINES: readonly RouteOptions[] = [
  { plugin: PLUGIN, engine: 'inline' },
  { plugin: PLUGIN, engine: 'workers' },
]

/** Calls that overlap. */
const OVERLAP = 100

const SAMPLES = 100

/** Calls before the first sample: V8 compiles code, and takes 10 MiB more for its heap after some 400,000. */
const WARM_UP_CALLS = 500_000

/**
 * Makes many calls on each engine in this process, one engine after another, and samples the memory of the process.
 *
 * @throws at one wrong answer.
 */
export async function measureSoak(
  calls: number,
  progress: (line: string) => void,
): Promise<SoakMeasurement[]> {
  const measured: SoakMeasurement[] = []
  for (const options of ENGINES) {
    measured.push(await soak(options, calls))
    progress(`${options.engine}: ${renderNumber(measured.at(-1)?.slopeMib ?? 0, 2)} MiB per 10^6 calls`)
  }
  return measured
}

async function soak(options: RouteOptions, calls: number): Promise<SoakMeasurement> {
  const before = process.getActiveResourcesInfo()
  const checkedOptions = checkWasmServeOptions({ routes: [options] })
  const [checked] = checkedOptions.routes
  if (!checked) throw new Error('no route')
  const log = openLog('silent')
  const shared = openAppResources(checkedOptions, log)
  const plugin = await loadRoutePlugin(checked, 1)
  const chosen = await chooseRoute({ ...checked, plugin }, ['routes', '0'], shared)
  const route = openRoute(chosen, '/', 0, log)
  await route.instances.ready

  const perSample = Math.ceil(calls / SAMPLES / OVERLAP) * OVERLAP
  const samples: Sample[] = []
  await callMany(route.instances, route.exportName, WARM_UP_CALLS)
  const begun = performance.now()
  for (let i = 1; i <= SAMPLES; i++) {
    await callMany(route.instances, route.exportName, perSample)
    collectGarbage()
    samples.push({ calls: i * perSample, rssMib: process.memoryUsage.rss() / 1_048_576 })
  }
  const seconds = (performance.now() - begun) / 1_000
  await route.close()
  await shared.close()
  return {
    engine: options.engine ?? 'inline',
    seconds,
    warmMib: samples[0]?.rssMib ?? Number.NaN,
    slopeMib: slope(samples) * 1_000_000,
    handles: [before, process.getActiveResourcesInfo()],
    samples,
  }
}

async function callMany(engine: Engine, exportName: string, count: number): Promise<void> {
  for (let made = 0; made < count; made += OVERLAP) {
    const names = Array.from({ length: OVERLAP }, () => `caller ${serial++}`)
    const answers = await Promise.all(
      names.map((name) => engine.call(exportName, new Uint8Array(Buffer.from(name)), CALLER)),
    )
    for (const [i, answer] of answers.entries()) {
      const expected = `{"message":"🦀 Hello ${names[i]}"}`
      const text = Buffer.from(answer).toString()
      if (text !== expected) throw new Error(`a wrong answer: ${text} instead of ${expected}`)
    }
  }
}

let serial = 0

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** The slope of the least-squares line, in MiB per call. */
function slope(samples: readonly Sample[]): number {
  const mean = (of: (sample: Sample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length
  const [meanCalls, meanMib] = [mean(({ calls }) => calls), mean(({ rssMib }) => rssMib)]
  const covariance = mean(({ calls, rssMib }) => (calls - meanCalls) * (rssMib - meanMib))
  return covariance / mean(({ calls }) => (calls - meanCalls) ** 2)
}

export function renderSoak(measured: readonly SoakMeasurement[]): string {
  const rows = measured.map(({ engine, seconds, warmMib, slopeMib, handles }) => {
    const [before, after] = handles.map((names) => names.length)
    const numbers = [renderNumber(seconds, 0), renderNumber(warmMib, 1), renderNumber(slopeMib, 2)]
    return `| ${[engine, ...numbers, before, after].join(' | ')} |`
  })
  return [
    '| engine | s | warm RSS MiB | MiB per 10^6 calls | handles before | after |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...rows,
  ].join('\n')
}
