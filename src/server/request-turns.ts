import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { processReads } from '../engine/turn-scheduler.ts'
import { holdReading, releaseReading } from '../platform/node-workarounds.ts'
import type { RequestHandler } from './http-server.ts'

/** Requests of a connection that begin in a turn of the event loop, if it sends many. */
const TURN_REQUESTS = 64

/**
 * Lets clients that pipeline many requests take turns with others: Node reads 64 KiB of a connection at a time, which may be
 * 2,400 requests. They begin in the order in which they arrived. Those of HTTP/2 are limited by the number of open streams.
 */
export function takingTurns(begin: RequestHandler): RequestHandler {
  const turns = new RequestTurns(begin)
  return (request, response) => {
    if (request.httpVersionMajor === 1) turns.add(request, response)
    else begin(request, response)
  }
}

class RequestTurns {
  readonly #begin: RequestHandler
  /** Connections that are not read, and their requests that have not begun. */
  readonly #resting = new Map<Socket, [IncomingMessage, ServerResponse][]>()
  /** The connection of the last request. */
  #last: Socket | undefined
  #inARow = 0
  /** What it had sent at the last check. */
  #bytesRead = 0

  constructor(begin: RequestHandler) {
    this.#begin = begin
  }

  add(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const resting = this.#resting.size > 0 ? this.#resting.get(socket) : undefined
    if (resting) {
      resting.push([request, response])
      return
    }
    if (socket !== this.#last) {
      this.#last = socket
      this.#inARow = 0
    } else if (++this.#inARow % TURN_REQUESTS === 0) this.#check(socket)
    this.#begin(request, response)
  }

  /** Many requests of one read: nothing else arrived between them. */
  #check(socket: Socket): void {
    const { bytesRead } = socket
    if (bytesRead === this.#bytesRead) this.#rest(socket)
    this.#bytesRead = bytesRead
  }

  #rest(socket: Socket): void {
    holdReading(socket)
    this.#resting.set(socket, [])
    processReads.wait(() => this.#turn(socket))
  }

  #turn(socket: Socket): void {
    const resting = this.#resting.get(socket) ?? []
    for (const [request, response] of resting.splice(0, TURN_REQUESTS)) this.#begin(request, response)
    if (resting.length > 0) {
      processReads.wait(() => this.#turn(socket))
      return
    }
    this.#resting.delete(socket)
    releaseReading(socket)
  }
}
