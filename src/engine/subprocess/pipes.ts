import { readSync, writeSync } from 'node:fs'
import { type Frame, HEADER_BYTES, writeHeader } from './frames.ts'

/*
 * The process's ends of its sockets. They block: who writes is heard by a server that always reads, and who reads has
 * nothing else to do.
 */

/** The descriptors that a process is given, besides standard input and standard error. */
export const FD = {
  /** Brings what is to be done. */
  tasks: 3,
  /** Takes answers, lines, questions. */
  answers: 4,
  /** Brings what the host answers. */
  host: 5,
  /** Ends when the server does; nothing is written. */
  server: 6,
} as const

/** Frames up to this size are written in one piece. */
const SMALL_BYTES = 65_536

const small = Buffer.allocUnsafeSlow(SMALL_BYTES)

/** Writes a frame: once this returns, it arrives, whatever becomes of the process. */
export function writeFrame(head: Omit<Frame, 'payload' | 'nameBytes'>, payload: Uint8Array): void {
  writeHeader(small, payload.length, { ...head, nameBytes: 0 })
  const isSmall = payload.length <= SMALL_BYTES - HEADER_BYTES
  if (isSmall) small.set(payload, HEADER_BYTES)
  writeAll(small.subarray(0, HEADER_BYTES + (isSmall ? payload.length : 0)))
  if (!isSmall) writeAll(payload)
}

/** Waits for the next answer of the host. @returns its payload. @throws if the server is there no more. */
export function readHostAnswer(): Uint8Array {
  const header = readExactly(HEADER_BYTES)
  return readExactly(header.readUInt32LE(0))
}

function writeAll(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(FD.answers, bytes, done)
}

function readExactly(length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let done = 0; done < length; ) {
    const count = readSync(FD.host, bytes, done, length - done, null)
    if (count === 0) throw new Error('the server has ended')
    done += count
  }
  return bytes
}
