import type { ServedRoute } from '../options/served-route.ts'
import { printable, renderTable } from '../platform/text.ts'

/**
 * Renders the start banner: the address, the routes, and a command to try.
 *
 * @param signers - The verified signers of the plug-ins, in the order of the routes. A column shows them if there are any.
 * @param mcpUrl - The URL of the endpoint for agents, if there is one.
 */
export function renderBanner(
  url: string,
  routes: readonly ServedRoute[],
  colours: boolean,
  { signers = [], mcpUrl }: { signers?: readonly (string | undefined)[]; mcpUrl?: string | undefined } = {},
): string {
  const bold = (text: string) => (colours ? `\x1b[1m${text}\x1b[0m` : text)
  const isSigned = signers.some((signer) => signer !== undefined)
  const head = [
    ...['METHOD', 'URL', 'PLUGIN', 'FUNCTION', 'CONTRACT', 'ENGINE', 'RUNTIME'],
    ...(isSigned ? ['SIGNED BY'] : []),
  ]
  const rows = routes
    .slice(0, MAX_ROWS)
    .map((route, index) => [
      ...addressOf(route),
      route.plugin,
      route.function,
      route.contract,
      renderEngine(route),
      route.runtime,
      ...(isSigned ? [signers[index] ?? ''] : []),
    ])
  const [headLine = '', ...lines] = renderTable([head, ...rows.map((row) => row.map(printable))])
  return [
    `wasm-serve listens on ${bold(url)}`,
    '',
    bold(headLine),
    ...lines,
    ...(routes.length > MAX_ROWS ? [`  and ${routes.length - MAX_ROWS} more routes`] : []),
    '',
    ...(mcpUrl === undefined ? [] : [`Tools for agents (MCP): ${bold(reachable(url) + mcpUrl)}`, '']),
    ...renderExamples(
      url,
      routes.find(({ tool }) => !tool?.isOnly),
      routes.length === 0,
    ),
  ].join('\n')
}

/** Methods and URL of a route; what is only a tool has its name instead. */
function addressOf(route: ServedRoute): [string, string] {
  const { methods, host = '', tool } = route
  if (tool?.isOnly) return ['tool', tool.name ?? '*']
  return [methods.join(','), host + shownPath(route)]
}

function renderExamples(url: string, route: ServedRoute | undefined, isEmpty: boolean): string[] {
  return route || isEmpty ? ['Try it:', `  ${renderExample(url, route)}`, ''] : []
}

/** Nobody reads more. */
const MAX_ROWS = 100

/** Where a route's guests run, with the reason for threads unless an option selected them. */
export function renderEngine({ engine, workers, engineReason, split }: ServedRoute): string {
  const first = renderThreads(engine, workers) + (engineReason ? ` (${engineReason})` : '')
  const second = split && renderThreads(split.engine, split.workers)
  return second && (split.engine !== engine || split.workers !== workers) ? `${first}, and ${second}` : first
}

function renderThreads(engine: string, workers: number): string {
  if (engine === 'subprocess') return `${workers} ${workers === 1 ? 'process' : 'processes'}`
  return workers === 0 ? engine : `${workers} ${workers === 1 ? 'worker' : 'workers'}`
}

function renderExample(url: string, route: ServedRoute | undefined): string {
  const path = route ? shownPath(route).replace(/\*$/, '') : '/'
  if (route?.contract === 'websocket' && !url.startsWith(UNIX)) {
    const { href, origin } = new URL(reachable(url) + path)
    // Pages of other origins are refused.
    return `new WebSocket('${href.replace(/^http/, 'ws')}') // in the console of a browser that shows ${origin}`
  }
  const target = targetOf(url, path)
  const methods = route?.methods ?? ['POST']
  if (methods.includes('POST') || methods.includes('*')) return `curl ${target} -d '😄 Bob Morane'`
  return methods.includes('GET') ? `curl ${target}` : `curl -X ${methods[0]} ${target}`
}

/** The arguments for curl. */
function targetOf(url: string, path: string): string {
  if (!url.startsWith(UNIX)) return quote(new URL(reachable(url) + path).href)
  return `--unix-socket ${quote(url.slice(UNIX.length))} ${quote(new URL(`http://localhost${path}`).href)}`
}

/** The prefix that marks the address of a Unix socket. */
const UNIX = 'unix:'

/** Fastify's route syntax writes a colon as two. */
function shownPath({ url }: ServedRoute): string {
  return url.replaceAll('::', ':')
}

/** Clients cannot connect to the wildcard address. */
export function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}

function quote(url: string): string {
  return /^[\w:/.%~-]+$/.test(url) ? url : `'${url}'`
}
