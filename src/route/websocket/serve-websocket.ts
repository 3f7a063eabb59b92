import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import {
  BadRequestError,
  ClientGoneError,
  EngineClosedError,
  QueueSlowError,
  StreamsFullError,
  UpgradeRequiredError,
  WebSocketOriginError,
  WebSocketsFullError,
} from '../../errors/errors.ts'
import { connectStream } from '../../guest/streams/stream-protocol.ts'
import type { RouteMeter } from '../../observe/metrics.ts'
import { outcomeOf } from '../../observe/observe.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import { joinBytes } from '../../platform/chunks.ts'
import { nextTurn } from '../../platform/event-loop.ts'
import { isHeader } from '../../platform/text.ts'
import { type WebOriginCheck, webOriginCheck } from '../../platform/web-origin.ts'
import { type KnownError, knownError, logFailure } from '../error-response.ts'
import { type Calls, hookedInput, notify, RequestCaller, type RouteHooks } from '../route.ts'
import { closeCodeOf } from './close-codes.ts'
import { Connection, type ConnectionLimits } from './connection.ts'
import { SocketExchange } from './socket-exchange.ts'

/** The options of a route with the contract `websocket`. */
interface SocketRoute extends ConnectionLimits {
  /** Maximum bytes of a sent message. */
  readonly outputLimit: number
  /** Maximum number of open connections. */
  readonly websocketMax: number
  /** Origins of web pages that may connect, besides that of the server; `*`: any. */
  readonly websocketOrigins: readonly string[]
  /** Known subprotocols. */
  readonly websocketProtocols: readonly string[]
}

/** A version of a route whose guests serve connections. */
export interface SocketVersion {
  readonly calls: Calls
  /** Whether a call serves a connection. Otherwise it answers a message. */
  readonly isPerConnection: boolean
  /** Number of threads or processes, how many calls each of them has at a time, and how long another call waits. */
  readonly workers: number
  readonly streamsPerThread: number
  readonly maxWaitMs: number
  readonly meter: RouteMeter | undefined
}

/** The connections of a route. They outlive the app that has accepted them while another app has the same route. */
export class RouteSockets {
  readonly options: SocketRoute
  readonly #route: ServedRoute
  readonly #hooks: RouteHooks | undefined
  readonly #pick: () => SocketVersion
  readonly #foreignSign: WebOriginCheck
  /** Open connections, each with the promise of its handler. */
  readonly #open = new Map<Connection, Promise<void>>()
  readonly #holders = new Set<FastifyInstance['server']>()
  #isEnding = false

  /** @param pick - The version for the next connection. */
  constructor(
    options: SocketRoute,
    route: ServedRoute,
    hooks: RouteHooks | undefined,
    pick: () => SocketVersion,
  ) {
    this.options = options
    this.#route = route
    this.#hooks = hooks
    this.#pick = pick
    this.#foreignSign = webOriginCheck({ origins: options.websocketOrigins })
  }

  /** Keeps the connections open for an app. @param server - The server of the app, which its scopes share. */
  hold(server: FastifyInstance['server']): void {
    this.#holders.add(server)
    this.#isEnding = false // a route that was removed has come back before its last request had ended
  }

  /** Ends that. Without an app, connections are closed as by {@link RouteSockets.end}. */
  async release(server: FastifyInstance['server']): Promise<void> {
    this.#holders.delete(server)
    if (this.#holders.size === 0) await this.end()
  }

  /** Closes all connections with 1001, each after the call in progress, and accepts no others. */
  async end(): Promise<void> {
    this.#isEnding = true
    for (const connection of this.#open.keys()) connection.retire()
    await Promise.all(this.#open.values())
  }

  /** The reason to refuse a handshake. @param isUpgrade - Whether the request is one. */
  problemWith(request: FastifyRequest, isUpgrade: boolean): KnownError | undefined {
    const { headers } = request
    if (!isUpgrade) return new UpgradeRequiredError()
    if (headers['sec-websocket-version'] !== VERSION)
      return new BadRequestError('its WebSocket version is not 13')
    if (!KEY.test(headers['sec-websocket-key'] ?? ''))
      return new BadRequestError('its Sec-WebSocket-Key is not 16 bytes in Base64')
    if (!areProtocols(headers['sec-websocket-protocol']))
      return new BadRequestError('its Sec-WebSocket-Protocol is not a list of different names')
    if (this.#foreignSign(request)) return new WebSocketOriginError()
    if (this.#isEnding) return new EngineClosedError()
    const { websocketMax } = this.options
    return this.#open.size < websocketMax ? undefined : new WebSocketsFullError(websocketMax)
  }

  /** Serves a connection after its handshake. */
  accept(socket: WebSocket, request: FastifyRequest): void {
    const version = this.#pick()
    const connection = new Connection(socket, request.raw.socket, this.options, version.meter)
    request.socketStats = connection
    const served = this.#serve(connection, version, request).finally(() => this.#open.delete(connection))
    this.#open.set(connection, served)
    if (this.#isEnding) connection.retire() // its handshake passed a hook meanwhile
  }

  async #serve(connection: Connection, version: SocketVersion, request: FastifyRequest): Promise<void> {
    try {
      if (version.isPerConnection) await this.#callForConnection(connection, version, request)
      else await this.#callForMessages(connection, version, request)
      await connection.finish(connection.isRetired ? GOING_AWAY : DONE, '')
    } catch (thrown) {
      const error = knownError(limitOf(thrown, version))
      logFailure(error, request, this.#route)
      const reason = error instanceof ClientGoneError ? '' : error.code // retired before its call had begun
      await connection.finish(connection.isRetired ? GOING_AWAY : closeCodeOf(error), reason)
    }
    await connection.closed()
  }

  async #callForMessages(
    connection: Connection,
    version: SocketVersion,
    request: FastifyRequest,
  ): Promise<void> {
    const { exportName, engine } = version.calls
    const { outputLimit } = this.options
    for (let message = await connection.take(); message; message = await connection.take()) {
      const exchange = new SocketExchange(connection, false, exportName, outputLimit)
      const output = await this.#call(message.bytes, exchange, connection, version, request)
      if (output.length > 0) await connection.send(output, message.isText && isUtf8(output))
      if (engine.name === 'inline') await nextTurn() // a client may send many messages at once
    }
  }

  async #callForConnection(
    connection: Connection,
    version: SocketVersion,
    request: FastifyRequest,
  ): Promise<void> {
    const { contract, exportName } = version.calls
    const { outputLimit } = this.options
    const exchange = new SocketExchange(connection, true, exportName, outputLimit)
    const output = await this.#call(
      joinBytes(contract.input(request)),
      exchange,
      connection,
      version,
      request,
    )
    if (output.length > 0) await connection.send(output, isUtf8(output))
  }

  async #call(
    value: Uint8Array,
    exchange: SocketExchange,
    connection: Connection,
    { calls, isPerConnection }: SocketVersion,
    request: FastifyRequest,
  ): Promise<Uint8Array> {
    const { exportName, engine, observe } = calls
    const since = performance.now()
    const route = this.#route
    const hooks = this.#hooks
    const ms = () => performance.now() - since
    connectStream(request, exchange)
    let observer: ReturnType<NonNullable<Calls['observe']>> | undefined
    try {
      const input = hooks ? await hookedInput({ route, request, input: value }, hooks.onCall) : value
      observer = observe?.(request)
      const caller = new SocketCaller(request, observer, connection, isPerConnection ? exchange : undefined)
      const output = await engine.call(exportName, input, caller)
      observer?.returned()
      if (exchange.failure) throw exchange.failure
      observer?.settled('ok')
      if (hooks) notify(hooks.onResult, { route, request, output, ms: ms() }, 'onResult')
      return output
    } catch (thrown) {
      const error = knownError(thrown)
      observer?.settled(outcomeOf(error.code), error.code)
      if (hooks) notify(hooks.onError, { route, request, error, ms: ms() }, 'onError')
      throw error
    }
  }
}

/** The caller of a guest that serves a connection, or answers one of its messages. */
class SocketCaller extends RequestCaller {
  readonly #connection: Connection
  readonly #exchange: SocketExchange | undefined

  /** @param exchange - Of a guest that serves the connection: it is ended some time after it. */
  constructor(
    request: FastifyRequest,
    observer: RequestCaller['observer'],
    connection: Connection,
    exchange: SocketExchange | undefined,
  ) {
    super(request, observer)
    this.#connection = connection
    this.#exchange = exchange
  }

  /** What a client has sent before it closed the connection is still given to the guest. */
  override get isGone(): boolean {
    return this.#exchange ? this.#connection.isOver : this.#connection.isLost
  }

  get isCancelledWhenGone(): boolean {
    return this.#exchange?.isPastDeadline ?? false
  }
}

/** The only version. (RFC 6455, section 4.4) */
export const VERSION = '13'

/** Names of subprotocols. (RFC 6455, section 4.1) */
function areProtocols(value: string | undefined): boolean {
  if (value === undefined) return true
  const names = value.split(',').map((name) => name.trim())
  return names.every((name) => isHeader(name, '')) && new Set(names).size === names.length
}

const KEY = /^[+/0-9A-Za-z]{22}==$/

const DONE = 1000
const GOING_AWAY = 1001

/** A call for a connection that waited met the limit of exchanges. */
function limitOf(
  thrown: unknown,
  { isPerConnection, workers, streamsPerThread, maxWaitMs }: SocketVersion,
): unknown {
  if (!isPerConnection || !(thrown instanceof QueueSlowError)) return thrown
  return new StreamsFullError(workers * streamsPerThread, workers, streamsPerThread, maxWaitMs)
}
