import { mainModuleOf } from '../deploy/edits.ts'
import type { FleetNode } from '../deploy/fleet/fleet-node.ts'
import type { ProcessInfo } from '../deploy/processes/supervisor.ts'
import type { Histogram } from '../observe/counters.ts'
import type { EngineStats } from '../observe/engine-stats.ts'
import type { Meters, MeterView } from '../observe/metrics.ts'
import type { ServerView } from './feature.ts'
import { unreadyReasons } from './health.ts'

/** The sources of the metrics. */
export interface MetricSources {
  readonly meters: Pick<Meters, 'all'>
  readonly served: ServerView
  readonly version: string
}

/** Label values and a number. */
type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

interface MetricBase {
  readonly name: string
  /** The description with its unit. */
  readonly help: string
  readonly labels: readonly string[]
}

/** One metric, read on each scrape. */
export type Metric =
  | (MetricBase & { readonly type: 'counter' | 'gauge'; read(sources: MetricSources): Sample[] })
  | (MetricBase & {
      readonly type: 'histogram'
      /** Converts milliseconds to the seconds of the output. */
      read(sources: MetricSources): (readonly [labels: MeterView['labels'], values: Histogram])[]
    })

/** The labels of a version of a route. */
const ROUTE = ['route', 'plugin', 'digest'] as const

/** The only description of the metrics of wasm-serve: the tables in `docs/operate/metrics-and-logs.md` are generated from it. */
export const METRICS: readonly Metric[] = [
  {
    type: 'counter',
    name: 'wasm_serve_calls_total',
    help: 'Completed calls by outcome: ok, guest_error, trap, timeout, queue_full and so on',
    labels: [...ROUTE, 'outcome'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, outcomes }) =>
        outcomes.names.map((outcome): Sample => [{ ...labels, outcome }, outcomes.of(outcome)]),
      ),
  },
  {
    type: 'histogram',
    name: 'wasm_serve_queue_wait_seconds',
    help: 'Time that calls waited for an instance, in seconds',
    labels: ROUTE,
    read: ({ meters }) => meters.all.map(({ labels, queueMs }) => [labels, queueMs]),
  },
  {
    type: 'histogram',
    name: 'wasm_serve_guest_seconds',
    help: 'Time that guests ran, in seconds',
    labels: ROUTE,
    read: ({ meters }) => meters.all.map(({ labels, guestMs }) => [labels, guestMs]),
  },
  ofEngines('gauge', 'queue_length', 'Calls waiting for an instance', ({ waiting }) => waiting),
  ofEngines('gauge', 'running_calls', 'Calls assigned to instances', ({ running }) => running),
  ofEngines('gauge', 'instances', 'Open instances, including spare ones', ({ instances }) => instances),
  ofEngines(
    'gauge',
    'guest_memory_bytes',
    'Exported memory of the guests, in bytes',
    ({ guestBytes }) => guestBytes,
  ),
  ofEngines(
    'gauge',
    'kernel_memory_bytes',
    'Memory for input and output of guests, in bytes',
    ({ kernelBytes }) => kernelBytes,
  ),
  ofEngines(
    'counter',
    'restarts_total',
    'Instances and threads replaced after a failure or timeout',
    ({ restarted }) => restarted,
  ),
  ofEngines(
    'counter',
    'recycles_total',
    'Instances replaced at the end of their lifetime',
    ({ recycled }) => recycled,
  ),
  ofEngines(
    'counter',
    'timeouts_total',
    'Guests terminated because they ran longer than timeoutMs',
    (stats) => stats.timeouts,
  ),
  ofEngines('gauge', 'breaker_open', '1 if no instance can be started, else 0', ({ isBreakerOpen }) =>
    isBreakerOpen ? 1 : 0,
  ),
  ofEngines('gauge', 'stuck_threads', 'Threads stuck in native calls', ({ stuck }) => stuck),
  ofEngines(
    'counter',
    'dropped_log_lines_total',
    'Guest log lines that were dropped',
    ({ droppedLines }) => droppedLines,
  ),
  ofEngines('counter', 'budget_checks_total', 'Checks for interrupts in guests', ({ checks }) => checks),
  {
    type: 'counter',
    name: 'wasm_serve_outbound_requests_total',
    help: 'HTTP requests of guests, by result: 2xx and so on, invalid, refused, timeout, too_large, failed',
    labels: [...ROUTE, 'result'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, outbound }) =>
        outbound.counted.map(([result, times]): Sample => [{ ...labels, result }, times]),
      ),
  },
  {
    type: 'counter',
    name: 'wasm_serve_kv_operations_total',
    help: 'Store operations of guests, by operation and result: ok, forbidden, invalid, too-large, full, unavailable',
    labels: [...ROUTE, 'operation', 'result'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, kv }) =>
        kv.counted.map(([name, times]): Sample => {
          const [operation = '', result = ''] = name.split(' ')
          return [{ ...labels, operation, result }, times]
        }),
      ),
  },
  ofStreams('exchanges_total', 'Exchanges with streams', 'exchanges'),
  ofStreams('received_bytes_total', 'Bytes that guests read as streams', 'received'),
  ofStreams('sent_bytes_total', 'Bytes that guests wrote as streams', 'sent'),
  ofStreams('broken_total', 'Aborted responses of guests that stream', 'broken'),
  timeOfStreams(
    'first_byte_seconds',
    'Time from a request to the first byte of its streamed response, in seconds',
    ({ firstByteMs }) => firstByteMs,
  ),
  timeOfStreams(
    'duration_seconds',
    'Time from a request until its streaming guest returned, in seconds',
    ({ durationMs }) => durationMs,
  ),
  ofSockets('gauge', 'connections', 'Open WebSockets', (counts) => counts.of('opened') - counts.of('closed')),
  ofSockets('counter', 'connections_total', 'Opened WebSockets', (counts) => counts.of('opened')),
  ofSockets('counter', 'received_messages_total', 'Messages from clients', (counts) =>
    counts.of('messagesIn'),
  ),
  ofSockets('counter', 'sent_messages_total', 'Messages to clients', (counts) => counts.of('messagesOut')),
  ofSockets('counter', 'received_bytes_total', 'Bytes of messages from clients', (counts) =>
    counts.of('bytesIn'),
  ),
  ofSockets('counter', 'sent_bytes_total', 'Bytes of messages to clients', (counts) => counts.of('bytesOut')),
  {
    type: 'counter',
    name: 'wasm_serve_websocket_closes_total',
    help: 'Closed WebSockets, by code: 1000 and so on, other',
    labels: [...ROUTE, 'code'],
    read: ({ meters }) =>
      meters.all.flatMap(({ labels, sockets }) =>
        sockets.counted
          .filter(([name]) => name.startsWith(CLOSE))
          .map(([name, times]): Sample => [{ ...labels, code: name.slice(CLOSE.length) }, times]),
      ),
  },
  {
    type: 'counter',
    name: 'wasm_serve_reloads_total',
    help: 'Reloads by result: ok, refused',
    labels: ['result'],
    read({ served }) {
      const { applied = 0, refused = 0 } = served.server.deployments?.log ?? {}
      return [
        [{ result: 'ok' }, applied],
        [{ result: 'refused' }, refused],
      ]
    },
  },
  {
    type: 'gauge',
    name: 'wasm_serve_configuration_behind',
    help: '1 if the last configuration, files or tags are not served because reloads fail, else 0',
    labels: [],
    read: ({ served }) => [[{}, served.server.deployments?.behind ? 1 : 0]],
  },
  {
    type: 'gauge',
    name: 'wasm_serve_ready',
    help: '1 if /readyz reports ready, else 0',
    labels: [],
    read: ({ served }) => [[{}, unreadyReasons(served).length === 0 ? 1 : 0]],
  },
  {
    type: 'gauge',
    name: 'wasm_serve_routes',
    help: 'Number of routes',
    labels: [],
    read: ({ served }) => [[{}, served.server.routes.length]],
  },
  ofFleet('revision', 'Revision of the fleet that the node serves', ({ revision }) => revision),
  ofFleet('newest_revision', 'Newest revision of the fleet', ({ newest }) => newest),
  ofFleet('connected', '1 if the store of the fleet is reachable, else 0', ({ isConnected }) =>
    Number(isConnected),
  ),
  ofFleet(
    'silent_seconds',
    'Seconds since the store of the fleet was reachable',
    ({ silentSeconds }) => silentSeconds,
  ),
  ofFleet('refused', '1 if the node rejects a revision of the fleet, else 0', ({ refused }) =>
    Number(refused !== undefined),
  ),
  ofProcesses('gauge', 'up', '1 if the process serves, else 0', ({ state }) => (state === 'serving' ? 1 : 0)),
  ofProcesses(
    'gauge',
    'silent_seconds',
    'Seconds since the last heartbeat of the process',
    ({ silentMs = 0 }) => silentMs / 1_000,
  ),
  ofProcesses(
    'gauge',
    'memory_bytes',
    'Resident memory of the process, in bytes',
    ({ memoryBytes = 0 }) => memoryBytes,
  ),
  ofProcesses('gauge', 'connections', 'Open connections of the process', ({ connections }) => connections),
  ofProcesses('counter', 'lost_total', 'Processes of this number that were lost', ({ lost }) => lost),
  {
    type: 'gauge',
    name: 'wasm_serve_plugin_info',
    help: 'Always 1; artifact or URL, and verified signer of a plug-in',
    labels: ['plugin', 'digest', 'origin', 'signer'],
    read: ({ served }) => originSamples(served),
  },
  {
    type: 'gauge',
    name: 'wasm_serve_info',
    help: 'Always 1; the label is the version of wasm-serve',
    labels: ['version'],
    read: ({ version }) => [[{ version }, 1]],
  },
]

/** The maximum number of plug-ins with a sample. */
const MAX_ORIGINS = 1_000

function originSamples({ server: { deployments } }: ServerView): Sample[] {
  const found = new Map<string, Sample>()
  for (const { target } of deployments?.current.routes ?? []) {
    for (const version of [target.live, ...(target.next ? [target.next.version] : [])]) {
      const { digest, place, signer } = mainModuleOf(version) ?? {}
      if (digest === undefined || (place === undefined && signer === undefined)) continue
      if (found.size >= MAX_ORIGINS) return [...found.values()]
      const labels = { plugin: target.name, digest, origin: place ?? '', signer: signer ?? '' }
      found.set(`${target.name} ${version.digest}`, [labels, 1])
    }
  }
  return [...found.values()]
}

/** A metric of the engines. It is 0 where none is open. */
function ofEngines(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  of: (stats: EngineStats) => number,
): Metric {
  return {
    type,
    name: `wasm_serve_${name}`,
    help,
    labels: ROUTE,
    read: ({ meters }) =>
      meters.all
        .filter(({ isOpen }) => isOpen || type === 'counter')
        .map(({ labels, stats }): Sample => [{ ...labels }, of(stats)]),
  }
}

/** A metric of the node of a fleet. There is none without a fleet. */
function ofFleet(name: string, help: string, of: (status: FleetNode['status']) => number): Metric {
  return {
    type: 'gauge',
    name: `wasm_serve_fleet_${name}`,
    help: `${help} (\`--fleet\`)`,
    labels: [],
    read: ({ served: { fleet } }) => (fleet ? [[{}, of(fleet.status)]] : []),
  }
}

/** A metric of guests that stream. There is none where none has. */
function ofStreams(
  name: string,
  help: string,
  count: MeterView['streams']['counts']['names'][number],
): Metric {
  return {
    type: 'counter',
    name: `wasm_serve_stream_${name}`,
    help,
    labels: ROUTE,
    read: ({ meters }) =>
      streaming(meters).map(({ labels, streams }): Sample => [{ ...labels }, streams.counts.of(count)]),
  }
}

function timeOfStreams(name: string, help: string, of: (streams: MeterView['streams']) => Histogram): Metric {
  return {
    type: 'histogram',
    name: `wasm_serve_stream_${name}`,
    help,
    labels: ROUTE,
    read: ({ meters }) => streaming(meters).map(({ labels, streams }) => [labels, of(streams)]),
  }
}

function streaming({ all }: MetricSources['meters']): MeterView[] {
  return all.filter(({ streams }) => streams.counts.of('exchanges') > 0)
}

/** The beginning of the names of counts by closing code. */
const CLOSE = 'close '

/** A metric of WebSockets. There is none where none was opened. */
function ofSockets(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  of: (counts: MeterView['sockets']) => number,
): Metric {
  return {
    type,
    name: `wasm_serve_websocket_${name}`,
    help,
    labels: ROUTE,
    read: ({ meters }) =>
      meters.all
        .filter(({ sockets }) => sockets.of('opened') > 0)
        .map(({ labels, sockets }): Sample => [{ ...labels }, of(sockets)]),
  }
}

/** A metric of serving processes. There is none where the process itself serves. */
function ofProcesses(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  of: (process: ProcessInfo) => number,
): Metric {
  return {
    type,
    name: `wasm_serve_process_${name}`,
    help: `${help} (\`--processes\`)`,
    labels: ['process'],
    read: ({ served }) =>
      (served.processes?.list ?? []).map((each): Sample => [{ process: String(each.number) }, of(each)]),
  }
}
