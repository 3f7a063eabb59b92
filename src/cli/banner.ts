import type { ServedRoute } from '../options/served-route.ts'
import { printable, renderTable } from '../platform/text.ts'

/**
 * Renders the start banner: the address, the routes, and a command to try.
 *
 * @param signers - The verified signers of the plug-ins, in the order of the routes. A column shows them if there are any.
 */
export function renderBanner(
  url: string,
  routes: readonly ServedRoute[],
  colours: boolean,
  signers: readonly (string | undefined)[] = [],
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
      route.methods.join(','),
      (route.host ?? '') + shownPath(route),
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
    'Try it:',
    `  ${renderExample(url, routes[0])}`,
    '',
  ].join('\n')
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
