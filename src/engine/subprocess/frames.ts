import { readSync, writeSync } from 'node:fs'

/*
 * The process's ends of its sockets. Those of answers block: the server always reads, and the process has nothing else to do
 * while it waits for an answer.
 */

/** The descriptors that a process inherits, besides standard input and standard error. */
export const FD = {
  /** Tasks from the server. */
  tasks: 3,
  /** Answers, log lines and requests to the host. */
  answers: 4,
  /** Answers of the host. */
  host: 5,
  /** Closed when the server ends. No data is written. */
  server: 6,
} as const

/** Frames up to this size are written in one piece. */
const ONE_WRITE_BYTES = 65_536

const SERVER_ENDED = 'the server has exited'

const small = Buffer.allocUnsafeSlow(ONE_WRITE_BYTES)

/** Writes a frame. When this returns, the frame arrives even if the process ends. */
export function writeFrame(head: Omit<Frame, 'payload' | 'nameBytes'>, payload: Uint8Array): void {
  writeHeader(small, payload.length, { ...head, nameBytes: 0 })
  const isSmall = payload.length <= ONE_WRITE_BYTES - FRAME_HEADER_BYTES
  if (isSmall) small.set(payload, FRAME_HEADER_BYTES)
  writeAnswerBytes(small.subarray(0, FRAME_HEADER_BYTES + (isSmall ? payload.length : 0)))
  if (!isSmall) writeAnswerBytes(payload)
}

/** @returns what the server has written to the tasks, up to a limit; undefined if there is nothing. @throws if the server has ended. */
export function readTasks(): Uint8Array | undefined {
  const bytes = Buffer.allocUnsafeSlow(ONE_WRITE_BYTES)
  try {
    const count = readSync(FD.tasks, bytes, 0, bytes.length, null)
    if (count === 0) throw new Error(SERVER_ENDED)
    return bytes.subarray(0, count)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return undefined
    throw error
  }
}

/** Waits for the next answer of the host. @returns its payload. @throws if the server has ended. */
export function readHostAnswer(): Uint8Array {
  const header = readExactly(FRAME_HEADER_BYTES)
  return readExactly(header.readUInt32LE(0))
}

function writeAnswerBytes(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(FD.answers, bytes, done)
}

function readExactly(length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let done = 0; done < length; ) {
    const count = readSync(FD.host, bytes, done, length - done, null)
    if (count === 0) throw new Error(SERVER_ENDED)
    done += count
  }
  return bytes
}

/** A message between the server and a process of guests: a header and bytes. */
export interface Frame {
  /** One of {@link TO_CHILD} or {@link FROM_CHILD}. */
  readonly kind: number
  /** The number of its instance within the process. */
  readonly instance: number
  /** The number of a call; 0: no call. */
  readonly call: number
  /** The number of payload bytes, at its start, that are a name. */
  readonly nameBytes: number
  /** Guest time in milliseconds. */
  readonly ms: number
  readonly payload: Uint8Array
}

/** Kinds of frames to the process. */
export const TO_CHILD = {
  /** Open an instance: the payload is a {@link ProcessStart}, packed. */
  start: 1,
  /** Call an export: the payload is its name, then the input. */
  call: 2,
  /** Close the instance. */
  close: 3,
  /** An answer of the host: a `HostAnswer`, packed. Sent on a separate socket. */
  hostAnswer: 4,
  /** Interrupt the call. Ignored if it has ended. */
  interrupt: 5,
} as const

/** Kinds of frames from the process. */
export const FROM_CHILD = {
  /** The instance is open: the payload is one byte, 1 if its calls can be interrupted. */
  started: 1,
  /** The instance could not be opened: the payload is a `CallFailure`, packed. */
  startFailed: 2,
  output: 3,
  /** A `CallFailure`, packed. */
  failure: 4,
  /** A log line of the guest: a `LogLine`, packed; the call is 0 if none runs. */
  log: 5,
  /** Statistics of the engine: six numbers of 8 bytes. */
  stats: 6,
  /** The guest asks the host and waits: a `HostRequest`, packed. */
  ask: 7,
} as const

/** Bytes of a header: length (u32), kind (u16), instance (u16), call (u32), bytes of the name (u32), ms (f64). */
export const FRAME_HEADER_BYTES = 24

/** Writes a header at the start of a buffer. */
export function writeHeader(
  target: Buffer,
  length: number,
  { kind, instance, call, nameBytes, ms }: Omit<Frame, 'payload'>,
): void {
  target.writeUInt32LE(length, 0)
  target.writeUInt16LE(kind, 4)
  target.writeUInt16LE(instance, 6)
  target.writeUInt32LE(call, 8)
  target.writeUInt32LE(nameBytes, 12)
  target.writeDoubleLE(ms, 16)
}

/** Extracts frames from the chunks of a socket. */
export class FrameReader {
  /** Maximum bytes of a payload: the writer may be hostile. */
  maxBytes: number
  readonly #onFrame: (frame: Frame) => void
  #kept: Uint8Array[] = []
  #keptBytes = 0
  /** Minimum number of bytes for the next attempt. */
  #wanted = FRAME_HEADER_BYTES

  /** @param onFrame - The payload is a view of the received bytes, and can be kept. */
  constructor(maxBytes: number, onFrame: (frame: Frame) => void) {
    this.maxBytes = maxBytes
    this.#onFrame = onFrame
  }

  /** @throws RangeError if a payload is too long or a header is invalid: the rest is unreadable. */
  push(piece: Uint8Array): void {
    this.#keptBytes += piece.length
    if (this.#keptBytes < this.#wanted) {
      this.#kept.push(piece)
      return
    }
    let rest = this.#kept.length === 0 ? asBuffer(piece) : Buffer.concat([...this.#kept, piece])
    this.#kept = []
    while (rest.length >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + this.#checkLength(rest.readUInt32LE(0))
      if (rest.length < end) break
      this.#onFrame(readFrame(rest, end))
      rest = rest.subarray(end)
    }
    this.#keptBytes = rest.length
    this.#wanted =
      rest.length < FRAME_HEADER_BYTES ? FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + rest.readUInt32LE(0)
    if (rest.length > 0) this.#kept.push(rest)
  }

  #checkLength(length: number): number {
    if (length <= this.maxBytes) return length
    throw new RangeError(`a frame of ${length} bytes, more than ${this.maxBytes}`)
  }
}

function readFrame(bytes: Buffer, end: number): Frame {
  const nameBytes = bytes.readUInt32LE(12)
  if (nameBytes > end - FRAME_HEADER_BYTES)
    throw new RangeError(`a name of ${nameBytes} bytes is longer than its frame`)
  return {
    kind: bytes.readUInt16LE(4),
    instance: bytes.readUInt16LE(6),
    call: bytes.readUInt32LE(8),
    nameBytes,
    ms: bytes.readDoubleLE(16),
    payload: bytes.subarray(FRAME_HEADER_BYTES, end),
  }
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
