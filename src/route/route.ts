import { inspect } from 'node:util'
import { isNativeError } from 'node:util/types'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { setCommonHeaders } from '../contract/common-headers.ts'
import type { RouteContract } from '../contract/direct.ts'
import { type Engine, PendingCall } from '../engine/engine.ts'
import { InternalError } from '../errors/errors.ts'
import { type Caller, type CallObserver, type ObserveCall, outcomeOf } from '../observe/observe.ts'
import { hasBody, isTooLarge, readBody } from './body.ts'

/** What a route calls, and how. */
export interface Calls extends RouteContract {
  readonly exportName: string
  readonly engine: Engine
  /** Makes the observer of a call. None: nothing listens. */
  readonly observe: ObserveCall | undefined
}

/** Answers a request whose body was read. Nothing is thrown: a failure is an answer. */
export type RunCall = (request: FastifyRequest, reply: FastifyReply) => void

/**
 * Makes the handler of a route. It reads the body where Fastify does not.
 *
 * @param bodyLimit - In bytes.
 */
export function serveRoute(run: RunCall, bodyLimit: number): RouteHandlerMethod {
  return (request, reply) => {
    if (request.body !== undefined || !hasBody(request.raw)) {
      run(request, reply)
      return
    }
    if (request.headers.expect !== undefined && !isTooLarge(request.raw, bodyLimit)) reply.raw.writeContinue()
    readBody(request.raw, bodyLimit, (error, body) => {
      if (error) {
        if (request.raw.httpVersionMajor === 1) reply.header('connection', 'close') // the client may go on sending
        reply.send(error)
        return
      }
      request.body = body
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

/** Takes a request through the contract to the guest, and its output back. */
export function runCalls({ exportName, contract, isDirect, engine, observe }: Calls): RunCall {
  const answer = (output: Uint8Array, reply: FastifyReply, observer: CallObserver | undefined): void => {
    try {
      observer?.returned()
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
      const output = engine.call(exportName, input, new RequestCaller(request, observer))
      if (output instanceof Uint8Array) answer(output, reply, observer)
      else answerLater(output, reply, observer)
    } catch (thrown) {
      sendFailure(thrown, reply, observer)
    }
  }
}

function show(thrown: unknown): string {
  try {
    return inspect(thrown)
  } catch {
    return 'what was thrown throws when it is shown'
  }
}

/** Answers with what was thrown. @returns it as an error: anything else, Fastify would send with a 200. */
export function sendFailure(thrown: unknown, reply: FastifyReply, observer: CallObserver | undefined): Error {
  const isError = thrown instanceof Error || isNativeError(thrown) // of this realm, or of another
  const error = isError ? thrown : new InternalError({ cause: { thrown: show(thrown) } })
  if (observer) {
    const code = 'code' in error ? String(error.code) : ''
    observer.settled(outcomeOf(code), code)
  }
  reply.send(error)
  return error
}
