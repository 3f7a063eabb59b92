import { isUtf8 } from 'node:buffer'
import { IncomingMessage } from 'node:http'
import { sensitiveHeaders } from 'node:http2'
import type { FastifyRequest } from 'fastify'
import { giveBack } from '../platform/buffer-pool.ts'
import type { ByteSource } from '../platform/chunks.ts'
import { sendWhole } from '../platform/http2-answer.ts'
import { http2ResponseOf } from '../platform/missing-types.ts'
import { setCommonHeaders } from './answer-headers.ts'
import type { Contract, ContractOptions } from './contract.ts'
import { openHttp, renderRequest } from './http.ts'
import { openSimplism } from './simplism.ts'

/** A contract whose input may be in pieces, because only the guest reads it. */
interface GuestContract extends Omit<Contract, 'input'> {
  input(request: FastifyRequest): ByteSource
}

/** The contract of a route, and how it reads bodies and sets headers. */
export interface RouteContract {
  readonly contract: GuestContract
  /**
   * Whether a body may stay in pieces, and its answers include the headers of {@link setCommonHeaders}. If not, the route joins
   * the pieces, and sets the headers before the call.
   */
  readonly isDirect: boolean
}

/** The route options that affect answers. */
interface RouteContractOptions extends ContractOptions {
  readonly contract: ContractName | Contract
  /** Headers of all answers. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether a hook adds the header `Server-Timing`. */
  readonly timing: boolean
}

/**
 * Opens the contract of a route. Only this function decides whether a route answers directly: with the contract `raw`, if
 * nothing reads its answers or adds to them.
 *
 * @param isUnwatched - Whether nothing outside the route reads its answers: no hook of the app or of the user.
 * @param isLogged - Whether an access log reads the length of its answers.
 */
export function openRouteContract(
  options: RouteContractOptions,
  isUnwatched: boolean,
  isLogged = false,
): RouteContract {
  const { contract, headers, timing } = options
  const isDirect = isUnwatched && contract === 'raw' && !timing && Object.keys(headers).length === 0
  return { contract: isDirect ? openDirect(options, isLogged) : openContract(contract, options), isDirect }
}

/**
 * The contract `raw`, answered through Node's response: Fastify's reply does much work per payload whose result is
 * known here. It also sets the headers of {@link setCommonHeaders}.
 */
function openDirect(options: ContractOptions, isLogged: boolean): GuestContract {
  const viaFastify = openRaw(options)
  return {
    ...viaFastify,

    input: (request) => (request.body as ByteSource | undefined) ?? NO_BYTES,

    answer(output, reply) {
      const { raw, request } = reply
      const isHttp1 = request.raw instanceof IncomingMessage
      const http2Response = isHttp1 ? undefined : http2ResponseOf(raw)
      if (!isHttp1 && !http2Response) {
        setCommonHeaders(reply) // an injected request
        viaFastify.answer(output, reply)
        return
      }
      const { length } = output
      if (isLogged) reply.header('content-length', length) // it is not sent: the log reads it
      const type = options.contentType ?? guessType(output)
      const isHead = request.method === 'HEAD'
      if (http2Response && length <= MAX_TEXT && !isHead && !http2Response.stream.endAfterHeaders) {
        const headers = {
          ':status': 200,
          'x-request-id': request.id,
          'x-content-type-options': 'nosniff',
          'content-type': type,
          'content-length': length,
          [sensitiveHeaders]: UNIQUE_HEADERS,
        }
        sendWhole(http2Response, headers, latin1(output), 'latin1')
        return
      }
      raw.writeHead(200, [
        'x-request-id',
        request.id,
        'x-content-type-options',
        'nosniff',
        'content-type',
        type,
        'content-length',
        `${length}`,
      ])
      if (http2Response && isHead)
        raw.end() // HTTP/1 omits the body by itself
      else if (length > MAX_TEXT) raw.end(output, () => giveBack(output))
      else raw.end(latin1(output), 'latin1')
    },
  }
}

/** Headers whose value is different in each answer. HTTP/2 does not index them, so that they evict no others. (RFC 7541, section 6.2.3) */
const UNIQUE_HEADERS = ['x-request-id']

/** Bodies up to this size are sent as a string together with the headers, which takes Node less time than a buffer. */
const MAX_TEXT = 4_096

/** Latin-1: one character per byte. */
function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return buffer.toString('latin1')
}

type ContractName = 'raw' | 'http' | 'simplism' | 'hyper-mcp' | 'websocket'

/** Opens the contract of a route by its name. A custom contract is used as it is. */
export function openContract(contract: ContractName | Contract, options: ContractOptions): Contract {
  switch (contract) {
    case 'raw':
      return openRaw(options)
    case 'http':
      return openHttp(options)
    case 'simplism':
      return openSimplism(options)
    case 'hyper-mcp':
      return { ...openRaw(options), name: 'hyper-mcp' } // no request reaches it: its guests are called as tools only
    case 'websocket':
      return { ...openRaw(options), name: 'websocket', input: renderRequest } // the answers are messages
    default:
      return contract
  }
}

const NO_BYTES = new Uint8Array()

/**
 * The body is the input, the output is the body.
 *
 * @param contentType - Of the answers. Default: text if the output is valid UTF-8, else bytes.
 */
export function openRaw({ contentType }: ContractOptions): Contract {
  return {
    name: 'raw',

    input: (request) => (request.body as Uint8Array | undefined) ?? NO_BYTES,

    answer(output, reply) {
      reply.header('content-type', contentType ?? guessType(output))
      reply.send(output)
    },
  }
}

/** The content type of an output without a configured one. */
function guessType(output: Uint8Array): string {
  return isUtf8(output) ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}
