import { isUtf8 } from 'node:buffer'
import type { Contract, ContractOptions } from './contract.ts'

const EMPTY = new Uint8Array()

/**
 * The body is the input, the output is the body.
 *
 * @param contentType - Of the answers. Default: text if the output is valid UTF-8, else bytes.
 */
export function openRaw({ contentType }: ContractOptions): Contract {
  return {
    name: 'raw',

    input: (request) => (request.body as Uint8Array | undefined) ?? EMPTY,

    answer(output, reply) {
      reply.header('content-type', contentType ?? guessType(output))
      reply.send(output)
    },
  }
}

/** The content type of an output of which nobody has said it. */
export function guessType(output: Uint8Array): string {
  return isUtf8(output) ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}
