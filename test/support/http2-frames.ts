import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'

/** A frame as it is on the wire. (RFC 9113, section 4.1) */
export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

/** Types of frames. */
export const DATA = 0
export const HEADERS = 1
export const RST_STREAM = 3
export const SETTINGS = 4
export const PING = 6
export const GOAWAY = 7
const WINDOW_UPDATE = 8

/** Of DATA and HEADERS. */
export const END_STREAM = 1

/** Of SETTINGS and PING. */
const ACK = 1

const END_HEADERS = 4

/** Of SETTINGS. */
const INITIAL_WINDOW_SIZE = 4

const MAX_FRAME = 16_384

/** The bytes of a frame. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.set([type, flags], 3)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** What a client sends first. @param windowSize - The initial window of streams for answers. Default: 65,535. */
export function preface(windowSize?: number): Buffer {
  const settings = windowSize === undefined ? [] : [0, INITIAL_WINDOW_SIZE, ...numberBytes(windowSize)]
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(SETTINGS, 0, 0, Buffer.from(settings)),
  ])
}

/** The head of a request whose body follows. Its headers are literals without Huffman codes. (RFC 7541, section 6.2.2) */
export function requestHead(stream: number, headers: Readonly<Record<string, string>> = {}): Buffer {
  const all = {
    ':method': 'POST',
    ':scheme': 'https',
    ':path': '/',
    ':authority': 'localhost',
    ...headers,
  }
  const literals = Object.entries(all).map(([name, value]) =>
    Buffer.concat([
      Buffer.of(0, name.length),
      Buffer.from(name),
      Buffer.of(value.length),
      Buffer.from(value),
    ]),
  )
  return frame(HEADERS, END_HEADERS, stream, Buffer.concat(literals))
}

/** @param code - Default: CANCEL. */
export function reset(stream: number, code = 8): Buffer {
  return frame(RST_STREAM, 0, stream, numberBytes(code))
}

/** @param stream - 0: the window of the connection. */
export function windowUpdate(stream: number, bytes: number): Buffer {
  return frame(WINDOW_UPDATE, 0, stream, numberBytes(bytes))
}

/** A client that sends what it is told, records all frames of the server, and answers SETTINGS and PING. */
export interface FrameClient {
  readonly socket: TLSSocket
  /** In the order of their arrival. */
  readonly frames: readonly Frame[]
  send(...frames: Uint8Array[]): void
  /**
   * Sends a part of a body as the windows allow it, until the server resets the stream.
   *
   * @returns the number of bytes that were sent.
   */
  upload(stream: number, bytes: number): Promise<number>
  /** Waits for the first frame that fits. */
  frame(fits: (frame: Frame) => boolean): Promise<Frame>
  /** The kinds of frames of a stream so far that matter for its end. ChunkedBytes of a body in a row count as one. */
  story(stream: number): string[]
}

/**
 * Opens a connection to a server of the loopback interface; destroyed when the test ends.
 *
 * @param first - Frames that are sent with the end of the handshake. They begin with {@link preface}.
 */
export async function openFrames(port: number, ca: string, ...first: Uint8Array[]): Promise<FrameClient> {
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca, ALPNProtocols: ['h2'] })
  onTestFinished(() => void socket.destroy())
  socket.write(Buffer.concat(first))
  await once(socket, 'secureConnect')
  socket.on('error', () => undefined) // a reset is a way of closing
  const frames: Frame[] = []
  const windows = new Windows()
  const reset = new Set<number>()
  let waiting: (() => void)[] = []
  const notify = () => {
    const all = waiting
    waiting = []
    for (const wake of all) wake()
  }
  const news = () => {
    if (socket.closed) throw new Error('the connection was closed before')
    return new Promise<void>((resolve) => waiting.push(resolve))
  }
  const add = (received: Frame) => {
    const { type, flags, stream, payload } = received
    frames.push(received)
    windows.add(received)
    if (type === RST_STREAM) reset.add(stream)
    if (type === SETTINGS && !(flags & ACK)) socket.write(frame(SETTINGS, ACK, 0))
    if (type === PING && !(flags & ACK)) socket.write(frame(PING, ACK, 0, payload))
  }
  let rest = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (let size = 0; rest.length >= 9; rest = rest.subarray(size)) {
      size = 9 + rest.readUIntBE(0, 3)
      if (rest.length < size) break
      const [type = 0, flags = 0] = rest.subarray(3)
      add({ type, flags, stream: rest.readUInt32BE(5), payload: rest.subarray(9, size) })
    }
    notify()
  })
  socket.on('close', notify)
  return {
    socket,
    frames,
    send: (...bytes) => void socket.write(Buffer.concat(bytes)),
    async upload(stream, bytes) {
      let left = bytes
      while (left > 0 && !reset.has(stream)) {
        const piece = windows.take(stream, left)
        left -= piece
        if (piece === 0) await news()
        else socket.write(frame(DATA, 0, stream, Buffer.alloc(piece)))
      }
      return bytes - left
    },
    async frame(fits) {
      for (;;) {
        const found = frames.find(fits)
        if (found) return found
        await news()
      }
    },
    story(stream) {
      const all = frames.filter((each) => each.stream === stream).flatMap(kinds)
      return all.filter((kind, i) => kind !== 'DATA' || all[i - 1] !== 'DATA')
    },
  }
}

/** How much a server allows its client to send. (RFC 9113, section 6.9) */
class Windows {
  #initial = 65_535
  readonly #changes = new Map<number, number>([[0, 65_535]])

  add({ type, flags, stream, payload }: Frame): void {
    if (type === WINDOW_UPDATE) this.#change(stream, payload.readUInt32BE(0))
    if (type !== SETTINGS || flags & ACK) return
    for (let at = 0; at < payload.length; at += 6)
      if (payload.readUInt16BE(at) === INITIAL_WINDOW_SIZE) this.#initial = payload.readUInt32BE(at + 2)
  }

  /** @returns the size of the next frame; 0: wait. */
  take(stream: number, bytes: number): number {
    const ofStream = this.#initial + (this.#changes.get(stream) ?? 0)
    const size = Math.max(0, Math.min(bytes, MAX_FRAME, ofStream, this.#changes.get(0) ?? 0))
    this.#change(stream, -size)
    this.#change(0, -size)
    return size
  }

  #change(stream: number, bytes: number): void {
    this.#changes.set(stream, (this.#changes.get(stream) ?? 0) + bytes)
  }
}

function kinds({ type, flags, payload }: Frame): string[] {
  const end = flags & END_STREAM ? ['END_STREAM'] : []
  if (type === HEADERS) return ['HEADERS', ...end]
  if (type === DATA) return [...(payload.length > 0 ? ['DATA'] : []), ...end]
  return type === RST_STREAM ? [`RST_STREAM ${payload.readUInt32BE(0)}`] : []
}

function numberBytes(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
