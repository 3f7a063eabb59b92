import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { setCommonHeaders } from '../../contract/answer-headers.ts'
import { ClientGoneError, GuestError, QueueSlowError, StreamsFullError } from '../../errors/errors.ts'
import { connectStream } from '../../guest/streams/stream-protocol.ts'
import type { RouteMeter } from '../../observe/metrics.ts'
import { type CallObserver, type ObservedCall, outcomeOf } from '../../observe/observe.ts'
import type { ServedRoute } from '../../options/served-route.ts'
import { joinBytes } from '../../platform/chunks.ts'
import { knownError, logFailure } from '../error-response.ts'
import { type Calls, hookedInput, notify, RequestCaller, type RouteHooks, sendFailure } from '../route.ts'
import { HttpExchange, type StreamLimits } from './http-exchange.ts'

/** The options of a route with streams. */
interface StreamRoute extends StreamLimits {
  /** Number of threads or processes. */
  readonly workers: number
  /** Number of exchanges that each of them has at a time. */
  readonly streamsPerThread: number
  readonly maxWaitMs: number
}

/** The caller of a guest with streams: it is ended some time after its exchange. */
class StreamCaller extends RequestCaller {
  readonly #exchange: HttpExchange

  constructor(request: FastifyRequest, observer: CallObserver | undefined, exchange: HttpExchange) {
    super(request, observer)
    this.#exchange = exchange
  }

  override get isGone(): boolean {
    return this.#exchange.isOver
  }

  get isCancelledWhenGone(): boolean {
    return this.#exchange.isPastDeadline
  }
}

/** Requests whose bodies may take long to arrive. */
const streamed = new WeakSet<object>()

/** Exempts a request from the HTTP server's time limit for requests. */
export function letStream(request: object): void {
  streamed.add(request)
}

/** Whether a request's body may take long: the HTTP server's time limit for requests does not apply to it. */
export function isStreamed(request: object): boolean {
  return streamed.has(request)
}

/**
 * Creates the handler of a route whose guests read bodies and write answers themselves. A guest need not do either: its
 * input is that of a request without a body, and its output is the answer, unless it has started one.
 *
 * @param hooks - The hooks around its calls, if there are any.
 * @param meter - Counts exchanges, if metrics are enabled.
 */
export function serveStreams(
  calls: Calls,
  limits: StreamRoute,
  route: ServedRoute,
  hooks: RouteHooks | undefined,
  meter: RouteMeter | undefined,
): RouteHandlerMethod {
  const { exportName, contract, engine, observe } = calls
  const run = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    setCommonHeaders(reply)
    const exchange = new HttpExchange(request, reply, limits, exportName)
    connectStream(request, exchange)
    letStream(request.raw)
    request.streamStats = exchange
    const since = performance.now()
    const ms = () => performance.now() - since
    let observer: ObservedCall | undefined
    try {
      if (exchange.failure) throw exchange.failure
      const plain = joinBytes(contract.input(request))
      const input = hooks ? await hookedInput({ route, request, input: plain }, hooks.onCall) : plain
      observer = observe?.(request)
      exchange.listen((event) => observer?.happened(event))
      const output = await engine.call(exportName, input, new StreamCaller(request, observer, exchange))
      observer?.returned()
      if (exchange.failure) throw exchange.failure
      if (exchange.isStarted) {
        if (output.length > 0) request.log.warn({ route: route.url, bytes: output.length }, IGNORED_OUTPUT)
        exchange.finish()
      } else contract.answer(output, reply)
      observer?.settled('ok')
      if (hooks) notify(hooks.onResult, { route, request, output, ms: ms() }, 'onResult')
    } catch (thrown) {
      const error = fail(reasonOf(thrown, exchange), request, reply, exchange, observer)
      if (hooks) notify(hooks.onError, { route, request, error, ms: ms() }, 'onError')
    } finally {
      streamed.delete(request.raw)
      exchange.close()
      meter?.countStream(exchange, ms())
    }
  }
  /** @returns the error. */
  const fail = (
    thrown: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: HttpExchange,
    observer: CallObserver | undefined,
  ): Error => {
    if (!exchange.isStarted) {
      const { raw } = request
      // The client may continue to send.
      if (raw.httpVersionMajor === 1 && raw.complete === false) reply.header('connection', 'close')
      return sendFailure(limitOf(thrown, limits), reply, observer)
    }
    const error = knownError(thrown)
    observer?.settled(outcomeOf(error.code), error.code)
    logFailure(error, request, route)
    if (!(error instanceof ClientGoneError)) {
      request.log.warn({ route: route.url, code: error.code }, BROKEN)
      request.requestSpan?.failed(error)
    }
    exchange.break()
    return error
  }
  return (request, reply) => void run(request, reply)
}

/** A guest that returns an error after its read has failed repeats what the server knows better. */
function reasonOf(thrown: unknown, { failure, bodyError }: HttpExchange): unknown {
  return failure ?? (thrown instanceof GuestError ? bodyError : undefined) ?? thrown
}

/** The message for the output of a guest that has started its answer. */
export const IGNORED_OUTPUT = 'the output of a guest that had started its response is ignored'
const BROKEN = 'a response that had been started was aborted'

/** A call that waited met the limit of exchanges. */
function limitOf(thrown: unknown, { workers, streamsPerThread, maxWaitMs }: StreamRoute): unknown {
  if (!(thrown instanceof QueueSlowError)) return thrown
  return new StreamsFullError(workers * streamsPerThread, workers, streamsPerThread, maxWaitMs)
}
