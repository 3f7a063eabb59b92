import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { hasBody, isTooLarge, readBody } from './body.ts'
import { setCommonHeaders } from './common-headers.ts'
import type { Contract } from './contract/contract.ts'
import type { Engine } from './engine/engine.ts'

/** Holds a route's engine, so that a reload is one assignment. */
export interface EngineHolder {
  engine: Engine
}

/**
 * Makes the handler that takes a request through the contract to the guest, and its output back. It reads the body
 * where Fastify does not.
 *
 * @param bodyLimit - In bytes.
 */
export function serveRoute(
  exportName: string,
  contract: Contract,
  holder: EngineHolder,
  bodyLimit: number,
): RouteHandlerMethod {
  const run = (request: FastifyRequest, reply: FastifyReply): void => {
    setCommonHeaders(reply)
    try {
      const output = holder.engine.call(exportName, contract.input(request), request)
      if (output instanceof Promise) {
        output.then((bytes) => contract.answer(bytes, reply)).catch((error) => reply.send(error))
      } else {
        contract.answer(output, reply)
      }
    } catch (error) {
      reply.send(error)
    }
  }
  return (request, reply) => {
    if (request.body !== undefined || !hasBody(request.raw)) {
      run(request, reply)
      return
    }
    if (request.headers.expect !== undefined && !isTooLarge(request.raw, bodyLimit)) reply.raw.writeContinue()
    readBody(request.raw, bodyLimit, (error, body) => {
      if (error) {
        reply.header('connection', 'close').send(error) // the client may go on sending
        return
      }
      request.body = body
      run(request, reply)
    })
  }
}
