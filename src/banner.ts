import { printable } from './printable.ts'
import type { ServedRoute } from './wasm-serve.ts'

/** Renders what a person wants to know when the server has started: where it listens, what answers, how to try it. */
export function renderBanner(url: string, routes: readonly ServedRoute[], colours: boolean): string {
  const bold = (text: string) => (colours ? `\x1b[1m${text}\x1b[0m` : text)
  const head = ['METHOD', 'URL', 'PLUGIN', 'FUNCTION', 'ENGINE', 'RUNTIME']
  const rows = routes.map((route) => [
    route.method,
    pathOf(route),
    route.plugin,
    route.function,
    engineOf(route),
    route.runtime,
  ])
  const [headLine = '', ...lines] = renderTable([head, ...rows.map((row) => row.map(printable))])
  const target = new URL(reachable(url) + (routes[0] ? pathOf(routes[0]) : '/'))
  return [
    `wasm-serve listens on ${bold(url)}`,
    '',
    bold(headLine),
    ...lines,
    '',
    'Try it:',
    `  curl ${quote(target.href)} -d '😄 Bob Morane'`,
    '',
  ].join('\n')
}

/** With why it has threads, unless somebody asked for just that. */
function engineOf({ engine, workers, engineReason }: ServedRoute): string {
  if (workers === 0) return engine
  return `${workers} ${workers === 1 ? 'worker' : 'workers'}${engineReason ? ` (${engineReason})` : ''}`
}

function renderTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  )
}

/** In Fastify's route syntax two colons are one. */
function pathOf({ url }: ServedRoute): string {
  return url.replaceAll('::', ':')
}

/** Nobody can connect to "all addresses". */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}

function quote(url: string): string {
  return /^[\w:/.%~-]+$/.test(url) ? url : `'${url}'`
}
