import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, InjectOptions } from 'fastify'
import { watchParent } from '../../engine/watchdog.ts'
import { ChangeRefusedError } from '../../errors/errors.ts'
import type { AgentRelay } from '../../mcp/list-changes.ts'
import { shareDescriptors } from '../../observe/log/lines.ts'
import { openLog, RecentLines, type Terminal } from '../../observe/log/log.ts'
import { Secrets } from '../../observe/log/secrets.ts'
import { reportMeters } from '../../observe/meter-report.ts'
import { Meters } from '../../observe/metrics.ts'
import type { TracingSdk } from '../../observe/traces.ts'
import type { Environment } from '../../options/config.ts'
import { descriptorTrouble, watchDescriptors } from '../../platform/descriptors.ts'
import type { KeptStreams } from '../../server/app.ts'
import { openHandedServer } from '../../server/server.ts'
import { type Ending, openEnding } from '../../server/shutdown.ts'
import { type LocalReplica, openLocalReplica } from '../local-replica.ts'
import { receivedConfiguration, receivedEdits } from '../received-state.ts'
import { viewOf } from '../replica.ts'
import { keepWhatStays } from '../resolve.ts'
import { planFirst } from '../start.ts'
import { countTogether } from './count-together.ts'
import { type Answers, type Channel, type Link, openLink } from './link.ts'
import type { Beat, Boot, CallAnswer, CallRequest, PrimaryRequests, ProcessRequests } from './protocol.ts'
import { answersOf, type ReplicaRequests } from './remote-replica.ts'
import { shareWorkers } from './share-workers.ts'

/** Interval of the signs of life of a serving process. */
const BEAT_MS = 1_000

/** How long a draining process waits for the primary to stop handing connections over. */
const QUIET_MS = 1_000

/** How long after `drainMs` and `graceMs` a process without its primary is killed. A drain ends earlier. */
const ALONE_MS = 3_000

/** The parts of its process that a serving process uses. */
interface ServingHost {
  readonly environment: Environment
  readonly logTerminal: Terminal | undefined
  readonly channel: ServingChannel
  /** Ends the process before it serves. */
  exit(code: number): void
}

/** The channel to the primary. */
export interface ServingChannel extends Channel {
  /** Called with each connection. @returns the number of open connections. */
  onConnection(take: (socket: Socket) => number): void
  /** The number of the last connection that has arrived; 0: none. */
  readonly lastConnection: number
  /** Called when the primary is gone. */
  onGone(listener: () => void): void
}

/** Serves the states that the primary sends, until the primary asks for the end, or is gone. */
export function serveForPrimary(host: ServingHost): void {
  shareDescriptors()
  const { channel } = host
  let serving: Serving | undefined
  const started = (): Serving => {
    if (!serving) throw new ChangeRefusedError('the process is starting')
    return serving
  }
  const link = openLink<PrimaryRequests, ProcessRequests>(channel, {
    async boot(boot) {
      serving = await openServing(boot, link, host)
      const { replica, take } = serving
      channel.onConnection(take)
      await beat()
      return { routes: replica.routes.map(viewOf), kept: 0 }
    },
    prepare: (sent, signal) => started().answers.prepare(sent, signal),
    commit: (sent, signal) => started().answers.commit(sent, signal),
    abort: (sent, signal) => started().answers.abort(sent, signal),
    status: (sent, signal) => started().answers.status(sent, signal),
    call: (request) => callRoute(request, started().replica),
    meters: () => reportMeters(started().meters ?? { all: [] }),
    lines: () => started().lines?.all ?? [],
    mask: (values) => {
      for (const [value, shown] of values) started().secrets.add(value, shown)
    },
    countRequests: (key) => serving?.streams.running?.count(key) ?? 0,
    cancelRequest: (key) => serving?.streams.running?.cancelHere(key),
    announce: (changes) => serving?.streams.changes?.announceHere(changes),
    task: (request) => serving?.streams.tasks?.answerHere(request),
    hasArrived: (connection) => connection <= channel.lastConnection,
    drain: () => started().ending.begin('drain'),
  })
  // Without descriptors there is no status, but a sign of life.
  const beat = async () => link.ask('beat', await serving?.status().catch(() => undefined))
  setInterval(() => void beat().catch(() => undefined), BEAT_MS).unref() // the end of the primary is noticed elsewhere
  channel.onGone(() => {
    link.close(new ChangeRefusedError('the primary is gone'))
    if (serving) serving.ending.begin('the primary is gone')
    else host.exit(1)
  })
}

/** A serving process that has started. */
interface Serving {
  readonly replica: LocalReplica
  /** What the MCP endpoints share. */
  readonly streams: KeptStreams
  readonly meters: Meters | undefined
  readonly answers: Answers<ReplicaRequests>
  status(): Promise<Beat>
  readonly ending: Ending
  /** Values to mask in the log. */
  readonly secrets: Secrets
  /** The last lines of the log, if they are kept. */
  readonly lines: RecentLines | undefined
  take(socket: Socket): number
}

async function openServing(
  { number, count, state, start, isWatched, readTls, storeMayBeAway, stateSecret, secrets: values }: Boot,
  link: Link<PrimaryRequests>,
  { environment, logTerminal }: ServingHost,
): Promise<Serving> {
  const { configuration } = state
  if (!configuration) throw new ChangeRefusedError('the first state has no configuration')
  const secrets = new Secrets()
  for (const [value, shown] of values) secrets.add(value, shown)
  const lines = isWatched ? new RecentLines() : undefined
  const counter = countTogether((questions) => link.ask('count', questions))
  const module = (digest: string) => link.ask('module', digest)
  const first = await planFirst(
    receivedConfiguration(() => configuration),
    async () => receivedEdits(state.edits, module),
  )
  const { options } = keepWhatStays(first.options, start)
  watchParent(options.drainMs + options.graceMs + ALONE_MS)
  const log: FastifyBaseLogger = openLog(options.logLevel, {
    ...{ terminal: logTerminal, secrets, recent: lines, process: number },
  })
  const sdk: TracingSdk | undefined = options.otel
    ? await (await import('../../observe/traces.ts')).startTracingSdk(environment)
    : undefined
  const meters = isWatched ? new Meters() : undefined
  const gone = () => undefined // so is the primary
  const relay: AgentRelay = {
    number,
    cancel: (key) => void link.ask('cancelRequest', key).catch(gone),
    announce: (changes) => void link.ask('announce', changes).catch(gone),
    askTask: (owner, request) => link.ask('askTask', [owner, request]),
  }
  const streams: KeptStreams = { stateSecret, relay, isReviewed: number !== 1 }
  const replica = await openLocalReplica(first, {
    ...{ log, meters, counter, storeMayBeAway, streams, start, revision: state.revision },
    adapt: shareWorkers(count),
  })
  first.plugins.settled()
  const quiet = () => Promise.race([link.ask('quiet', undefined), sleep(QUIET_MS)]).catch(() => undefined)
  const connections = new Set<Socket>()
  const server = openHandedServer({ ...options, readTls }, replica.app, log, async () => void (await quiet()))
  replica.follow(server)
  const stopCounting = watchDescriptors(log)
  const drain = async () => {
    replica.refuse()
    stopCounting()
    await server.drain()
    await replica.close()
    await sdk?.close()
  }
  return {
    replica,
    streams,
    meters,
    answers: answersOf(replica, configuration),
    status: async () => ({
      ...(await replica.status()),
      connections: connections.size,
      trouble: descriptorTrouble(),
    }),
    ending: openEnding({ drain }, options, log, ['SIGUSR2']),
    secrets,
    lines,
    take(socket) {
      connections.add(socket)
      socket.once('close', () => connections.delete(socket))
      server.take(socket)
      return connections.size
    },
  }
}

/** Limits apply as for a client, except those of connections. */
async function callRoute(
  { method, url, headers, body }: CallRequest,
  { app }: LocalReplica,
): Promise<CallAnswer> {
  const answer = await app.inject({
    method: method as NonNullable<InjectOptions['method']>, // an unknown method gets the usual answer
    url,
    headers,
    ...(body && { payload: Buffer.from(body) }),
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.rawPayload }
}
