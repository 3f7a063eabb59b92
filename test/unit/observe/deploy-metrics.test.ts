import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { renderOperations } from '../../../scripts/reference.ts'
import { METRICS } from '../../../src/admin/metric-list.ts'
import { OUTCOMES } from '../../../src/observe/observe.ts'
import { listenBoth } from '../../support/admin.ts'
import { guest } from '../../support/guest.ts'

const path = (name: string) => fileURLToPath(new URL(`../../../${name}`, import.meta.url))
const read = (name: string) => readFileSync(path(name), 'utf8')
const ALERTS = 'deploy/prometheus/alerts.yaml'

test('the table of metrics is that of the code (npm run reference), and each outcome has a row', () => {
  const page = read('docs/operate/metrics-and-logs.md')
  expect(page).toBe(renderOperations(page))
  const outcomes = /\| outcome \|[\s\S]*?\n\n/.exec(page)?.[0] ?? ''
  const told = [...outcomes.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? [])
  expect(told.sort()).toEqual([...OUTCOMES].sort())
})

test('a route that has streamed nothing has no rows of streams and sockets', async () => {
  const server = await listenBoth([{ plugin: guest('echo') }])
  await fetch(server.url, { method: 'POST', body: 'a' })
  const text = await (await fetch(`${server.adminUrl}/metrics`)).text()
  expect(text).toMatch(/^wasm_serve_calls_total\{/m)
  expect(text).toMatch(/^# TYPE wasm_serve_stream_/m)
  expect(text).not.toMatch(/^wasm_serve_(?:stream|websocket)\w*\{/m)
})

test('the origin and the signer of a plug-in are shown if it has one of them, for each version that gets calls', () => {
  const version = (digest: string, from: object) => ({ digest, modules: [{ name: 'main', digest, ...from }] })
  const target = (name: string, from: object) => ({ target: { name, live: version('a', from) } })
  const split = {
    target: {
      ...target('split', { place: 'https://example.com/a.wasm' }).target,
      next: { percent: 5, version: version('b', { place: 'oci://example.com/b', signer: 'key.pub' }) },
    },
  }
  const routes = [target('file', {}), target('signed', { signer: 'key.pub' }), split, split]
  const served = { server: { deployments: { current: { routes } } } }
  const info = METRICS.find(({ name }) => name === 'wasm_serve_plugin_info')
  expect(info?.read({ served } as never)).toEqual([
    [{ plugin: 'signed', digest: 'a', origin: '', signer: 'key.pub' }, 1],
    [{ plugin: 'split', digest: 'a', origin: 'https://example.com/a.wasm', signer: '' }, 1],
    [{ plugin: 'split', digest: 'b', origin: 'oci://example.com/b', signer: 'key.pub' }, 1],
  ])
})

test('each metric and label that dashboard and alerts name is there', async () => {
  const server = await listenBoth([{ plugin: guest('echo') }])
  const text = await (await fetch(`${server.adminUrl}/metrics`)).text()
  const names = new Set(
    [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    ),
  )
  names.add('up') // Prometheus' own
  const labels = new Set([...METRICS.flatMap(({ labels }) => labels), 'instance', 'job', 'le'])

  const expressions = [
    ...expressionsIn(JSON.parse(read('deploy/grafana/dashboard.json'))),
    ...rules().map(({ expr }) => expr),
  ]
  expect(expressions.length).toBeGreaterThan(30)
  for (const expression of expressions) {
    const { metrics, used } = namesIn(expression)
    expect(
      metrics.filter((name) => !names.has(name)),
      expression,
    ).toEqual([])
    expect(metrics.length, expression).toBeGreaterThan(0)
    expect(
      used.filter((name) => !labels.has(name)),
      expression,
    ).toEqual([])
  }
})

test('each metric is on the dashboard', () => {
  const dashboard = read('deploy/grafana/dashboard.json')
  for (const { name } of METRICS) expect(dashboard).toContain(name)
})

test('outcomes and results that the alerts name are there', () => {
  const known = new Set([...OUTCOMES, ...(read('docs/operate/metrics-and-logs.md').match(/[\w-]+/g) ?? [])])
  for (const { expr } of rules()) {
    for (const [, value = ''] of expr.matchAll(/(?:outcome|result)=~?"([^"]*)"/g)) {
      for (const each of value.split('|')) expect(known.has(each) || each === '5xx', each).toBe(true)
    }
  }
})

interface Rule {
  readonly expr: string
}

function rules(): Rule[] {
  return parse(read(ALERTS)).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
}

/** Of all panels and variables. */
function expressionsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, item]) => {
    if (key === 'expr') return [String(item)]
    const [, metric] = key === 'query' ? (/^label_values\((.*), \w+\)$/.exec(String(item)) ?? []) : []
    return metric === undefined ? expressionsIn(item) : [metric]
  })
}

/** What PromQL names that is no function and no word of its own. */
function namesIn(expression: string): { metrics: string[]; used: string[] } {
  const selected = [...expression.matchAll(/\{([^}]*)\}/g)].flatMap(
    ([, inner = '']) => inner.match(/\w+(?=[=!])/g) ?? [],
  )
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(
    ([, inner = '']) => inner.match(/\w+/g) ?? [],
  )
  const rest = expression.replaceAll(/\{[^}]*\}|\bby \([^)]*\)|\[[^\]]*\]/g, ' ')
  const words = rest.match(/[a-z_]\w*(?!\w*\s*\()/g) ?? []
  return { metrics: words.filter((word) => !['by', 'sum'].includes(word)), used: [...selected, ...grouped] }
}
