import type { RouteHandlerMethod } from 'fastify'
import { setCommonHeaders } from './common-headers.ts'
import type { Contract } from './contract/contract.ts'
import type { Engine } from './engine/engine.ts'

/** Holds a route's engine, so that a reload is one assignment. */
export interface EngineHolder {
  engine: Engine
}

/** Makes the handler that takes a request through the contract to the guest, and its output back. */
export function serveRoute(exportName: string, contract: Contract, holder: EngineHolder): RouteHandlerMethod {
  return (request, reply) => {
    setCommonHeaders(reply)
    const output = holder.engine.call(exportName, contract.input(request), request)
    if (!(output instanceof Promise)) return contract.answer(output, reply)
    return output.then((bytes) => {
      contract.answer(bytes, reply)
      return reply
    })
  }
}
