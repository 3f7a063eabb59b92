import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Bench, effortOf, type Report } from './bench.ts'
import { type Measurement, measure } from './measure.ts'
import { renderLineChart } from './plot.ts'
import { find, ratioTo, renderRatio, renderTable } from './report.ts'
import { COMMAND, HELLO, HELLO_BODY, noPlugin, ours, type Scenario } from './scenario.ts'
import type { Settings } from './settings.ts'

/** Measures the cost of a request with many connections and routes. */
export const scale: Bench = { name: 'scale', minutes: 3, run }

const CONNECTIONS = [1, 10, 100, 1_000, 5_000]

const ROUTES = [1, 10, 100, 1_000]

/** While routes are counted. */
const ROUTES_CONNECTIONS = 100

async function run(settings: Settings, progress: (line: string) => void): Promise<Report> {
  const { effort, args } = effortOf(settings, { runs: 5, seconds: 1, warmUpSeconds: 1 })
  const connections = settings.connections ?? CONNECTIONS
  const scenarios = [{ ...noPlugin(HELLO_BODY), name: ECHO }, ours(OURS)]
  const byConnections = await measure(scenarios, { ...effort, connections }, progress)
  const byRoutes = await measure(openRoutes(), { ...effort, connections: [ROUTES_CONNECTIONS] }, progress)
  return {
    args: `${args} --connections ${connections}`,
    markdown: renderScale({ byConnections, byRoutes }),
    data: { byConnections, byRoutes },
    plots: {
      connections: plotConnections(byConnections, [ECHO, OURS]),
      routes: plotRoutes(byRoutes),
    },
  }
}

export interface ScaleMeasurements {
  readonly byConnections: readonly Measurement[]
  readonly byRoutes: readonly Measurement[]
}

export function renderScale({ byConnections, byRoutes }: ScaleMeasurements): string {
  const connections = [...new Set(byConnections.map((each) => each.connections))]
  return [
    renderTable(byConnections, { scenarios: [{ name: ECHO }], compared: [] }),
    ...connections.map((count) => renderCpuRatio(byConnections, count)),
    '',
    renderTable(byRoutes, { scenarios: [{ name: routesName(1) }], compared: [] }),
  ].join('\n')
}

const ECHO = 'Fastify, echo'
const OURS = 'wasm-serve'

/** Servers with many routes of one plug-in, with an instance each; requests go to all routes in turn. */
function openRoutes(): Scenario[] {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-routes-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return ROUTES.map((count) => {
    const paths = Array.from({ length: count }, (_, i) => `/route-${i}`)
    const file = join(folder, `${count}.json`)
    const routes = paths.map((url) => ({ url, plugin: resolve(HELLO) }))
    writeFileSync(file, JSON.stringify({ routes }))
    return {
      ...ours(routesName(count)),
      command: [process.execPath, ...COMMAND, '-c', file],
      path: paths[0] ?? '/',
      paths,
    }
  })
}

function routesName(count: number): string {
  return count === 1 ? '1 route' : `${count} routes`
}

function renderCpuRatio(measurements: readonly Measurement[], connections: number): string {
  const [ours, echo] = [find(measurements, OURS, connections), find(measurements, ECHO, connections)]
  const cpu = ratioTo(ours, echo, 'cpuMicrosPerRequest')
  return `- \`${OURS}\` to \`${ECHO}\`, connections: ${connections}: ${renderRatio(cpu)} of the CPU per request`
}

function plotConnections(measurements: readonly Measurement[], names: readonly string[]): string {
  return renderLineChart({
    title: 'CPU time of the server per request, by connections',
    x: { label: 'connections', scale: 'log10' },
    y: { label: 'microseconds' },
    lines: names.map((name) => ({
      name,
      points: measurements
        .filter(({ scenario }) => scenario === name)
        .map(({ connections, cpuMicrosPerRequest }) => [connections, cpuMicrosPerRequest] as const),
    })),
  })
}

function plotRoutes(measurements: readonly Measurement[]): string {
  return renderLineChart({
    title: 'CPU time of the server per request, by routes with an instance each',
    note: `${ROUTES_CONNECTIONS} connections; requests go to all routes in turn.`,
    x: { label: 'routes', scale: 'log10' },
    y: { label: 'microseconds' },
    lines: [
      {
        name: OURS,
        points: measurements.map(
          ({ cpuMicrosPerRequest }, i) => [ROUTES[i] ?? 0, cpuMicrosPerRequest] as const,
        ),
      },
    ],
  })
}
