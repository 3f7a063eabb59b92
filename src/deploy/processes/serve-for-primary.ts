import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyBaseLogger, InjectOptions } from 'fastify'
import { watchParent } from '../../engine/watchdog.ts'
import { ChangeRefusedError } from '../../errors/errors.ts'
import { shareDescriptors } from '../../observe/log/lines.ts'
import { openLog, RecentLines, type Terminal } from '../../observe/log/log.ts'
import { Secrets } from '../../observe/log/secrets.ts'
import { reportMeters } from '../../observe/meter-report.ts'
import { Meters } from '../../observe/metrics.ts'
import type { TracingSdk } from '../../observe/traces.ts'
import type { Environment } from '../../options/config.ts'
import { descriptorTrouble, watchDescriptors } from '../../platform/descriptors.ts'
import { openHandedServer } from '../../server/server.ts'
import { type Ending, openEnding } from '../../server/shutdown.ts'
import type { Deployment, Deployments } from '../deployments.ts'
import { openHere } from '../open-here.ts'
import type { Resolved } from '../resolve.ts'
import { openServed, serveBy, viewOf } from '../serve-states.ts'
import { countTogether } from './count-together.ts'
import { type Answers, type Channel, type Link, openLink } from './link.ts'
import type { Beat, Boot, CallAnswer, CallRequest, PrimaryRequests, ProcessRequests } from './protocol.ts'
import { answersOf, type SideRequests } from './remote-side.ts'
import { shareWorkers } from './share-workers.ts'

/** Interval of the signs of life of a serving process. */
const BEAT_MS = 1_000

/** How long a draining process waits for the primary to stop handing connections over. */
const QUIET_MS = 1_000

/** How long after `drainMs` and `graceMs` a process without its primary is killed. A drain ends earlier. */
const ALONE_MS = 3_000

/** The parts of its process that a serving process uses. */
export interface ServingHost {
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
      const { deployments, take } = serving
      channel.onConnection(take)
      await beat()
      return { routes: deployments.current.served.map(viewOf), kept: 0 }
    },
    prepare: (sent, signal) => started().answers.prepare(sent, signal),
    commit: (sent, signal) => started().answers.commit(sent, signal),
    abort: (sent, signal) => started().answers.abort(sent, signal),
    status: (sent, signal) => started().answers.status(sent, signal),
    call: (request) => callRoute(request, started().deployments.current),
    meters: () => reportMeters(started().deployments.meters ?? { all: [] }),
    lines: () => started().lines?.all ?? [],
    mask: (values) => {
      for (const [value, shown] of values) started().secrets.add(value, shown)
    },
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
  readonly deployments: Deployments
  readonly answers: Answers<SideRequests>
  status(): Promise<Beat>
  readonly ending: Ending
  /** Values to mask in the log. */
  readonly secrets: Secrets
  /** The last lines of the log, if they are kept. */
  readonly lines: RecentLines | undefined
  take(socket: Socket): number
}

async function openServing(
  { number, count, state, isWatched, readTls, storeMayBeAway, stateSecret, secrets: values }: Boot,
  link: Link<PrimaryRequests>,
  { environment, logTerminal }: ServingHost,
): Promise<Serving> {
  const { configuration } = state
  if (!configuration) throw new ChangeRefusedError('the first state has no configuration')
  const secrets = new Secrets()
  for (const [value, shown] of values) secrets.add(value, shown)
  let log: FastifyBaseLogger = openLog('silent')
  let sdk: TracingSdk | undefined
  const lines = isWatched ? new RecentLines() : undefined
  const counter = countTogether((questions) => link.ask('count', questions))
  const module = (digest: string) => link.ask('module', digest)
  const begin = async (options: Resolved['options']) => {
    watchParent(options.drainMs + options.graceMs + ALONE_MS)
    log = openLog(options.logLevel, { terminal: logTerminal, secrets, recent: lines, process: number })
    if (options.otel) sdk = await (await import('../../observe/traces.ts')).startTracingSdk(environment)
    const meters = isWatched ? new Meters() : undefined
    const opener = openHere(options, {
      ...{ log, meters, counter, readTls, storeMayBeAway, stateSecret },
      adapt: shareWorkers(count),
    })
    return { log, meters, opener, logsChanges: false }
  }
  const deployments = await openServed({ ...state, configuration }, { module, begin })
  const { options, app } = deployments.current
  const quiet = () => Promise.race([link.ask('quiet', undefined), sleep(QUIET_MS)]).catch(() => undefined)
  const connections = new Set<Socket>()
  const server = openHandedServer({ ...options, readTls }, app, log, async () => void (await quiet()))
  deployments.follow(server)
  const side = serveBy(deployments, state.revision)
  const stopCounting = watchDescriptors(log)
  const drain = async () => {
    deployments.refuse()
    stopCounting()
    await server.drain()
    await deployments.close()
    await sdk?.close()
  }
  return {
    deployments,
    answers: answersOf(side, configuration),
    status: async () => ({
      ...(await side.status()),
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
  { app }: Deployment,
): Promise<CallAnswer> {
  const answer = await app.inject({
    method: method as NonNullable<InjectOptions['method']>, // an unknown method gets the usual answer
    url,
    headers,
    ...(body && { payload: Buffer.from(body) }),
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.rawPayload }
}
