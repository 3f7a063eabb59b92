import { inspect } from 'node:util'
import { isNativeError } from 'node:util/types'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { setCommonHeaders } from '../contract/common-headers.ts'
import type { Contract } from '../contract/contract.ts'
import type { Engine } from '../engine/engine.ts'
import { PendingCall } from '../engine/pending-call.ts'
import { InternalError } from '../errors/errors.ts'
import { hasBody, isTooLarge, readBody } from './body.ts'

/** Holds a route's engine, so that a reload is one assignment. */
export interface EngineHolder {
  engine: Engine
}

/** What a route calls, and how. */
export interface Calls {
  readonly exportName: string
  readonly contract: Contract
  readonly holder: EngineHolder
  /** Whether the contract says what every answer carries: see {@link openDirect}. */
  readonly isDirect?: boolean
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

/** Takes a request through the contract to the guest, and its output back. */
export function runCalls({ exportName, contract, holder, isDirect = false }: Calls): RunCall {
  const answer = (output: Uint8Array, reply: FastifyReply): void => {
    try {
      contract.answer(output, reply)
    } catch (thrown) {
      sendFailure(thrown, reply)
    }
  }
  return (request, reply) => {
    if (!isDirect) setCommonHeaders(reply)
    try {
      const output = holder.engine.call(exportName, contract.input(request), request)
      if (output instanceof Uint8Array) {
        contract.answer(output, reply)
        return
      }
      const answerLater = (bytes: Uint8Array) => answer(bytes, reply)
      const fail = (thrown: unknown) => void sendFailure(thrown, reply)
      if (output instanceof PendingCall) output.tell(answerLater, fail)
      else output.then(answerLater, fail)
    } catch (thrown) {
      sendFailure(thrown, reply)
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
export function sendFailure(thrown: unknown, reply: FastifyReply): Error {
  const isError = thrown instanceof Error || isNativeError(thrown) // of this realm, or of another
  const error = isError ? thrown : new InternalError({ cause: { thrown: show(thrown) } })
  reply.send(error)
  return error
}
