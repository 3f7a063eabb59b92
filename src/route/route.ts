import { inspect } from 'node:util'
import { isNativeError } from 'node:util/types'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { setCommonHeaders } from '../contract/answer-headers.ts'
import type { RouteContract } from '../contract/direct.ts'
import { type Engine, PendingCall } from '../engine/engine.ts'
import { InternalError } from '../errors/errors.ts'
import { type Caller, type CallObserver, type ObserveCall, outcomeOf } from '../observe/observe.ts'
import type { CallHooks, FailedCall, GuestCall, GuestResult, ServedRoute } from '../options/served-route.ts'
import { ChunkedBytes, joinBytes } from '../platform/chunks.ts'
import { sendContinue } from '../platform/node-workarounds.ts'
import { hasBody, isTooLarge, readRequestBody } from './body.ts'
import { failCall } from './error-response.ts'

/** The export that a route calls, its contract, and its engine. */
export interface Calls extends RouteContract {
  readonly exportName: string
  readonly engine: Engine
  /** Creates the observer of a call. undefined: no listeners. */
  readonly observe: ObserveCall | undefined
  /** Whether a client that disconnects ends its guest, where that is possible. Default: no. */
  readonly cancelOnDisconnect?: boolean
}

/** Answers a request whose body was read. Never throws: a failure becomes an answer. */
export type RunCall = (request: FastifyRequest, reply: FastifyReply) => void

/**
 * Creates the handler of a route. It reads the body if Fastify does not.
 *
 * @param bodyLimit - In bytes.
 * @param isDirect - Whether a body may stay in pieces.
 */
export function serveRoute(run: RunCall, bodyLimit: number, isDirect: boolean): RouteHandlerMethod {
  return (request, reply) => {
    if (request.body !== undefined || !hasBody(request.raw)) {
      run(request, reply)
      return
    }
    if (request.headers.expect !== undefined && !isTooLarge(request.raw, bodyLimit)) sendContinue(reply.raw)
    readRequestBody(request.raw, bodyLimit, (error, body) => {
      if (error) {
        if (request.raw.httpVersionMajor === 1) reply.header('connection', 'close') // the client may continue to send
        reply.send(error)
        return
      }
      request.body = isDirect ? body : joinBytes(body)
      if (!isDirect && body instanceof ChunkedBytes) body.free()
      run(request, reply)
    })
  }
}

/** A request as an engine sees it. */
export class RequestCaller implements Caller {
  readonly log: Caller['log']
  readonly host: FastifyRequest
  readonly observer: CallObserver | undefined

  constructor(request: FastifyRequest, observer: CallObserver | undefined) {
    this.log = request.log
    this.host = request
    this.observer = observer
  }

  get isGone(): boolean {
    return this.host.raw.socket.destroyed
  }
}

/** A request whose guest is ended when the client disconnects, or closes its side of the connection. */
class CancellingCaller extends RequestCaller {
  readonly isCancelledWhenGone = true

  override get isGone(): boolean {
    return super.isGone || this.host.raw.socket.readableEnded
  }
}

const callerClass = ({ cancelOnDisconnect }: Calls) => (cancelOnDisconnect ? CancellingCaller : RequestCaller)

/** Passes a request through the contract to the guest, and its output back. */
export function runCalls(calls: Calls): RunCall {
  const { exportName, contract, isDirect, engine, observe } = calls
  const Caller = callerClass(calls)
  const isCopied = engine.name !== 'subprocess' // whose socket may still write it
  const freeInput = ({ request }: FastifyReply): void => {
    if (isCopied && request.body instanceof ChunkedBytes) request.body.free()
  }
  const answer = (output: Uint8Array, reply: FastifyReply, observer: CallObserver | undefined): void => {
    try {
      observer?.returned()
      freeInput(reply)
      contract.answer(output, reply)
      observer?.settled('ok')
    } catch (thrown) {
      sendFailure(thrown, reply, observer)
    }
  }
  const answerLater = (
    output: PromiseLike<Uint8Array>,
    reply: FastifyReply,
    observer: CallObserver | undefined,
  ): void => {
    const onOutput = (bytes: Uint8Array) => answer(bytes, reply, observer)
    const onError = (thrown: unknown) => void sendFailure(thrown, reply, observer)
    if (output instanceof PendingCall) output.subscribe(onOutput, onError)
    else output.then(onOutput, onError)
  }
  return (request, reply) => {
    if (!isDirect) setCommonHeaders(reply)
    let observer: CallObserver | undefined
    try {
      const input = contract.input(request)
      observer = observe?.(request)
      const output = engine.call(exportName, input, new Caller(request, observer))
      if (output instanceof Uint8Array) {
        answer(output, reply, observer)
      } else answerLater(output, reply, observer)
    } catch (thrown) {
      sendFailure(thrown, reply, observer)
    }
  }
}

function describeThrown(thrown: unknown): string {
  try {
    return inspect(thrown)
  } catch {
    return 'the thrown value cannot be converted to a string'
  }
}

/** Answers with a thrown value. @returns it as an error: Fastify would send any other value with a 200. */
export function sendFailure(thrown: unknown, reply: FastifyReply, observer: CallObserver | undefined): Error {
  const isError = thrown instanceof Error || isNativeError(thrown) // of this realm, or of another
  const error = isError ? thrown : new InternalError({ cause: { thrown: describeThrown(thrown) } })
  if (observer) {
    const code = 'code' in error ? String(error.code) : ''
    observer.settled(outcomeOf(code), code)
  }
  failCall(error)
  reply.send(error)
  return error
}

/** Hooks of one kind, in call order. */
export type RouteHooks = { readonly [Kind in keyof CallHooks]-?: readonly NonNullable<CallHooks[Kind]>[] }

/** The hooks of a route. @returns undefined if there are none. */
export function hooksOf(ofAll: CallHooks, own: CallHooks): RouteHooks | undefined {
  const both = [ofAll, own]
  const hooks = {
    onCall: both.flatMap(({ onCall }) => onCall ?? []),
    onResult: both.flatMap(({ onResult }) => onResult ?? []),
    onError: both.flatMap(({ onError }) => onError ?? []),
  }
  return Object.values(hooks).some(({ length }) => length > 0) ? hooks : undefined
}

/** Runs calls like {@link runCalls}, with hooks around each. Observing hooks run after the answer was sent. */
export function runHookedCalls(
  calls: Calls,
  { onCall, onResult, onError }: RouteHooks,
  route: ServedRoute,
): RunCall {
  const { exportName, contract, engine, observe } = calls
  const Caller = callerClass(calls)
  const prepare = async (request: FastifyRequest): Promise<Uint8Array> => {
    return hookedInput({ route, request, input: joinBytes(contract.input(request)) }, onCall)
  }
  const run = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    setCommonHeaders(reply)
    let madeAt: number | undefined
    let observer: CallObserver | undefined
    const ms = () => (madeAt === undefined ? 0 : performance.now() - madeAt)
    try {
      const input = await prepare(request)
      madeAt = performance.now()
      observer = observe?.(request)
      const output = await engine.call(exportName, input, new Caller(request, observer))
      observer?.returned()
      const result = { route, request, output, ms: ms() }
      contract.answer(output, reply)
      observer?.settled('ok')
      notify(onResult, result, 'onResult')
    } catch (thrown) {
      const failure = { route, request, error: sendFailure(thrown, reply, observer), ms: ms() }
      notify(onError, failure, 'onError')
    }
  }
  return (request, reply) => void run(request, reply)
}

/** The input after the hooks, each of which may replace it. @throws errors of the hooks, which refuse the call. */
export async function hookedInput(call: GuestCall, onCall: RouteHooks['onCall']): Promise<Uint8Array> {
  let { input } = call
  for (const hook of onCall) input = replaced(await hook({ ...call, input })) ?? input
  return input
}

/** @throws TypeError if a hook returned an invalid value: ignoring it would hide a mistake. */
function replaced(returned: unknown): Uint8Array | undefined {
  if (returned === undefined || returned instanceof Uint8Array) return returned
  throw new TypeError(`onCall must return bytes (a Uint8Array) or nothing, not ${typeof returned}`)
}

/** The answer is already being sent, so a hook's error is only logged. */
export function notify<Event extends GuestResult | FailedCall>(
  hooks: readonly ((event: Event) => unknown)[],
  event: Event,
  name: string,
): void {
  for (const hook of hooks) {
    const failed = (error: unknown) => event.request.log.error({ err: error }, `the hook ${name} failed`)
    try {
      Promise.resolve(hook(event)).catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}
