import type { ShownRoute } from './admin-api.ts'
import { Chart, Figures } from './chart.tsx'
import { TableHead } from './form.tsx'
import { formatBytes, formatCount, formatDigest, formatMs, formatRate } from './format.ts'
import { Listing } from './listing.tsx'
import { addressOf, type LiveServer, metersOfRoutes, type ViewProps } from './live-server.ts'
import { useWatched } from './resources.ts'

const ROUTE_COLUMNS = [
  ...['Route', 'Plug-in', 'Requests/s', 'p50', 'p95', 'p99'],
  ...['Calls', 'Failed/s', 'Waiting', 'Memory'],
]

const BY_URL = ['url', 'URL'] as const

/** The routes with their current figures, page by page. */
export function RoutesView({ server }: ViewProps) {
  const { history } = server
  const routes = history.last?.routes ?? 0
  const count = `${formatCount(routes)} ${routes === 1 ? 'route' : 'routes'}`
  return (
    <div>
      <h1>Routes</h1>
      <Figures
        label="All routes"
        history={history}
        memory="processBytes"
        notes={({ waiting, bytes }) => [count, `${waiting} waiting`, `guests ${formatBytes(bytes)}`]}
      />
      <Listing<ShownRoute>
        server={server}
        path="/api/routes"
        name="routes"
        textOrder={BY_URL}
        empty={
          <p class="empty">
            There are no routes. <a href="#/plugins">Add a plug-in</a>, or name one in the configuration.
          </p>
        }
      >
        {(routes) => <RouteTable routes={routes} server={server} />}
      </Listing>
      <p class="hint">
        Rates and percentiles cover the last 10 seconds, charts the last minute. Times are guest times,
        without the wait in the queue.
      </p>
    </div>
  )
}

function RouteTable({
  routes,
  server,
}: {
  readonly routes: readonly ShownRoute[]
  readonly server: LiveServer
}) {
  useWatched(server, routes)
  return (
    <div class="card scroll">
      <table class="routes">
        <caption class="unseen">Routes with current metrics</caption>
        <TableHead names={ROUTE_COLUMNS} />
        <tbody>
          {routes.map((route) => (
            <RouteRow key={route.id} route={route} server={server} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function RouteRow({ route, server }: { readonly route: ShownRoute; readonly server: LiveServer }) {
  const { id, plugin, digest, description, trouble, engine, split, tool } = route
  const methods = route.methods.join(', ')
  const meters = metersOfRoutes([route])
  const { rate, p50, p95, p99, calls, failureRate, waiting, bytes } = server.history.now(meters)
  const points = server.history.points(meters)
  const cells = [
    ['p50', formatMs(p50)],
    ['p95', formatMs(p95)],
    ['p99', formatMs(p99)],
    ['Calls', formatCount(Math.max(calls, route.calls))],
    ['Failed/s', formatRate(failureRate)],
    ['Waiting', waiting],
    ['Memory', formatBytes(bytes)],
  ] as const
  const shownMethods = methods === '*' ? 'any' : methods
  return (
    <tr>
      <th scope="row">
        <a href={`#/call/${id}`} aria-label={`Call ${shownMethods} ${addressOf(route)}`}>
          <span class="method">{shownMethods}</span> <span class="path">{addressOf(route)}</span>
        </a>
        {description !== undefined && <span class="note">{description}</span>}
        {tool && (
          <span class="badge good">
            {tool.name === undefined ? 'tools of the plug-in' : `tool ${tool.name}`}
          </span>
        )}
        {trouble !== undefined && <span class="badge bad">{trouble}</span>}
      </th>
      <td data-label="Plug-in">
        <a href={`#/plugins/${encodeURIComponent(plugin)}`}>{plugin}</a>
        <code class="note">{formatDigest(digest)}</code>
        {split && (
          <span class="badge warn">
            {split.percent} % to {formatDigest(split.digest)}
            {split.engine !== engine && ` (${split.engine})`}
          </span>
        )}
      </td>
      <td data-label="Requests/s" class="rate">
        <span class="number">{formatRate(rate)}</span>
        <Chart values={points.map((point) => point.rate)} />
      </td>
      {cells.map(([label, value]) => (
        <td
          key={label}
          data-label={label}
          class={label === 'Failed/s' && failureRate > 0 ? 'number failing' : 'number'}
        >
          {value}
        </td>
      ))}
    </tr>
  )
}
