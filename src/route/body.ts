import { IncomingMessage } from 'node:http'
import { processReads } from '../engine/turn-scheduler.ts'
import { BadRequestError, BodyTooLargeError, PartialBytesFullError } from '../errors/errors.ts'
import { type ByteSource, ChunkedBytes, ChunkList } from '../platform/chunks.ts'
import { endsWithHeaders } from '../platform/missing-types.ts'
import { countReadBytes, detach } from '../platform/node-workarounds.ts'
import { type Part, processPartials } from '../platform/partial-bytes.ts'

/** Whether a request has a body, according to its headers. */
export function hasBody(request: IncomingMessage): boolean {
  const { headers } = request
  const length = headers['content-length']
  if (length !== undefined) return length !== '0'
  return (
    headers['transfer-encoding'] !== undefined ||
    (request.httpVersionMajor === 2 && !endsWithHeaders(request))
  )
}

/** Whether a request declares a body larger than the limit. */
export function isTooLarge({ headers }: IncomingMessage, limit: number): boolean {
  return Number(headers['content-length']) > limit
}

/** @param limit - The `bodyLimit` of a route. */
export function tooLarge(limit: number): InstanceType<typeof BodyTooLargeError> {
  return new BodyTooLargeError(`the ${limit} bytes that this route accepts (bodyLimit)`)
}

/**
 * Reads a body of any type. Fastify's own parser costs 1.5 us more per request.
 *
 * @param limit - Maximum size in bytes.
 * @param done - Called once. After an error the rest of the body may still arrive. The error is a
 * {@link BodyTooLargeError}, the HTTP server's error for a malformed or late body, a {@link BadRequestError}, or a
 * {@link PartialBytesFullError}.
 */
export function readRequestBody(
  request: IncomingMessage,
  limit: number,
  done: (error: Error | undefined, body: ByteSource) => void,
): void {
  if (isTooLarge(request, limit)) {
    done(tooLarge(limit), NO_BYTES)
    return
  }
  const declared = Number(request.headers['content-length'])
  let first: Buffer | undefined
  let chunks: ChunkList | undefined
  let part: Part | undefined // most bodies arrive whole
  let length = 0
  let pieces = 0
  let isOver = false

  const onData = (chunk: Buffer) => {
    if (isOver) return
    length += chunk.length
    if (length > limit) {
      end(tooLarge(limit))
      return
    }
    if (!first) first = chunk
    else {
      if (!chunks) {
        chunks = new ChunkList()
        chunks.add(first)
      }
      chunks.add(chunk)
    }
    if (length === declared) return
    part ??= openPart()
    processPartials.resize(part, length)
    if (++pieces % TURN_PIECES === 0) restFrom(request, () => request.resume())
  }
  const openPart = () => {
    request.on('close', () => isOver || end(new BadRequestError(INCOMPLETE))) // there may be no other event
    return processPartials.open(() => end(new PartialBytesFullError(processPartials.max)))
  }
  const onEnd = () => {
    const isWhole = Number.isNaN(declared) || declared === length // an injected request may have a wrong length
    if (request.aborted)
      end(new BadRequestError(INCOMPLETE)) // HTTP/2 reports this as a normal end
    else
      end(isWhole ? undefined : new BadRequestError('its body is shorter or longer than its Content-Length'))
  }
  const onError = (error: Error & { statusCode?: number }) => {
    end(error.statusCode === undefined ? new BadRequestError(error.message) : error)
  }
  const end = (error: Error | undefined) => {
    if (isOver) return
    isOver = true // keep the listeners: removing them costs more than ignoring events
    if (part) processPartials.close(part)
    if (length >= COUNTED_BYTES.from && length <= COUNTED_BYTES.to) countReadBytes(length, 'body')
    if (error) {
      first = chunks = undefined // the client may send for some time
      done(error, NO_BYTES)
      return
    }
    if (!chunks) done(undefined, first ?? NO_BYTES)
    // The pieces of an injected request are its sender's.
    else
      done(undefined, new ChunkedBytes(chunks.list, request instanceof IncomingMessage ? detach : undefined))
  }
  request.on('data', onData).on('end', onEnd).on('error', onError)
}

/** Reads no more of a body until other clients have had their turn: a client may send each byte as a piece. */
export function restFrom(request: IncomingMessage, resume: () => void): void {
  request.pause()
  processReads.wait(resume)
}

/** ChunkedBytes of a body that are read in a turn of the event loop. */
export const TURN_PIECES = 1_024

/**
 * Smaller bodies are freed by V8's own collections, which come with so many requests. Of larger ones, so much is read at the
 * same time that a young collection frees little of it.
 */
const COUNTED_BYTES = { from: 16_384, to: 262_144 }

const INCOMPLETE = 'its body is incomplete'
const NO_BYTES = new Uint8Array()
