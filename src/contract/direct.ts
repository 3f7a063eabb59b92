import { IncomingMessage } from 'node:http'
import type { FastifyReply } from 'fastify'
import { setCommonHeaders } from './common-headers.ts'
import type { Contract } from './contract.ts'
import type { ContractOptions } from './named.ts'
import { guessType, openRaw } from './raw.ts'

/**
 * The contract `raw` for a route where nothing looks at an answer or adds to it: no hook of the app, no header of the
 * route. Over HTTP/1 it answers through Node's response: Fastify's reply asks much of each payload to which the answer
 * is known here. It also says what {@link setCommonHeaders} says of an answer.
 */
export function openDirect(options: ContractOptions): Contract {
  const raw = openRaw(options)
  return {
    ...raw,
    answer(output, reply) {
      if (reply.request.raw instanceof IncomingMessage) {
        answerDirectly(output, options.contentType ?? guessType(output), reply)
      } else {
        setCommonHeaders(reply) // HTTP/2, or a request that is only simulated
        raw.answer(output, reply)
      }
    },
  }
}

/** Bodies up to this size are sent as text, in one piece with the headers: Node does less for that than for a buffer. */
const MAX_TEXT = 4_096

function answerDirectly(output: Uint8Array, contentType: string, { raw, request }: FastifyReply): void {
  const { length } = output
  raw.writeHead(200, [
    'x-request-id',
    request.id,
    'x-content-type-options',
    'nosniff',
    'content-type',
    contentType,
    'content-length',
    `${length}`,
  ])
  if (length > MAX_TEXT) raw.end(output)
  else raw.end(latin1(output), 'latin1')
}

/** A character for each byte. */
function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return buffer.toString('latin1')
}
