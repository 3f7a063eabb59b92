import type { Socket } from 'node:net'
import { ControlFramesError, PartialBytesFullError, RequestTimeoutError } from '../../errors/errors.ts'
import { EventRate } from '../../platform/event-rate.ts'
import { type Part, processPartials } from '../../platform/partial-bytes.ts'
import type { KnownError } from '../error-response.ts'
import { FrameReader } from './frame-reader.ts'

/** Pings, and pongs that answer none, of a connection: at once, and per second. */
const CONTROL_FRAMES = { burst: 1_000, perSecond: 100 }

/** Bytes of a connection that are read before other connections have their turn: Node reads 2 MiB, which may be 300,000 frames. */
const TURN_BYTES = 65_536

/** What the connection does about its client. */
interface ArrivalEvents {
  /** The client does what no client needs to do. */
  refuse(error: KnownError): void
  /** The client has sent as much as is read in one turn: other connections are next. */
  rest(): void
}

/** Limits what a client sends beside complete messages: control frames, and messages of which a part is missing. */
export class Arrivals {
  readonly #messageMs: number
  readonly #events: ArrivalEvents
  readonly #frames = new FrameReader()
  readonly #control = new EventRate(CONTROL_FRAMES.burst, CONTROL_FRAMES.perSecond)
  #turnBytes = 0
  #messages = 0
  #part: Part | undefined
  #clock: NodeJS.Timeout | undefined
  #isPaused = false
  #isClosed = false

  /** @param raw - The connection below, after `ws` listens to it. @param messageMs - Maximum time for a message to arrive. */
  constructor(raw: Socket, messageMs: number, events: ArrivalEvents) {
    this.#messageMs = messageMs
    this.#events = events
    raw.on('data', (piece: Buffer) => this.#read(piece))
    raw.once('close', () => this.close())
  }

  countControl(): void {
    if (this.#isClosed || this.#control.count()) return
    this.#refuse(new ControlFramesError(CONTROL_FRAMES.burst, CONTROL_FRAMES.perSecond))
  }

  /** The server does not read for some time, which is not the client's. */
  pause(): void {
    this.#isPaused = true
    this.#stopClock()
  }

  resume(): void {
    this.#isPaused = false
    if (this.#part) this.#startClock()
  }

  /** Whatever arrives from now on is ignored. */
  close(): void {
    this.#isClosed = true
    this.#endPart()
  }

  #read(piece: Buffer): void {
    if (this.#isClosed) return
    this.#frames.read(piece)
    this.#turnBytes += piece.length
    if (this.#turnBytes >= TURN_BYTES) {
      this.#turnBytes = 0
      this.#events.rest()
    }
    const { messages, partialBytes } = this.#frames
    if (messages !== this.#messages) this.#endPart()
    this.#messages = messages
    if (partialBytes === 0) return
    this.#part ??= this.#beginPart()
    processPartials.resize(this.#part, partialBytes)
  }

  #beginPart(): Part {
    if (!this.#isPaused) this.#startClock()
    return processPartials.open(() => this.#refuse(new PartialBytesFullError(processPartials.max)))
  }

  /** Once: a read may have thousands of frames behind the one that was too much. */
  #refuse(error: KnownError): void {
    this.close()
    this.#events.refuse(error)
  }

  #endPart(): void {
    if (!this.#part) return
    processPartials.close(this.#part)
    this.#part = undefined
    this.#stopClock()
  }

  #startClock(): void {
    const expire = () => {
      if (this.#clock === clock) this.#refuse(new RequestTimeoutError())
    }
    // After the event loop has read: it may have been blocked since the rest arrived.
    const clock = setTimeout(() => setImmediate(expire), this.#messageMs)
    this.#clock = clock
  }

  #stopClock(): void {
    clearTimeout(this.#clock)
    this.#clock = undefined
  }
}
