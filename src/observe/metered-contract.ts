import type { Contract } from '../contract/contract.ts'
import { MeteredCall } from './route-meter.ts'

/** A contract that counts the calls that it has answered. */
export function meterContract(contract: Contract): Contract {
  return {
    name: contract.name,
    input: (request) => contract.input(request),
    answer(output, reply) {
      contract.answer(output, reply)
      const { callTiming } = reply.request
      if (callTiming instanceof MeteredCall) callTiming.answered()
    },
  }
}
