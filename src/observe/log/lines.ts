import { write, writeSync } from 'node:fs'
import process from 'node:process'
import type { DestinationStream } from 'pino'
import { killProcess } from '../../platform/node-workarounds.ts'
import { errorCode } from '../../platform/system-errors.ts'
import { printable } from '../../platform/text.ts'

/** Limit of buffered bytes while the reader has stopped. Further lines are dropped. */
const MAX_WAITING_BYTES = 16_777_216

/** Size of one write: the amount that a pipe's reader, such as Docker's, reads in one step. */
const CHUNK_BYTES = 16_384

/** Size of one write if other processes write to the descriptor, too: what a pipe takes as a whole. (PIPE_BUF of pipe(7)) */
const SHARED_CHUNK_BYTES = 4_096

let chunkBytes = CHUNK_BYTES

/**
 * Keeps lines whole although other processes write to the same descriptors. On a pipe, lines of more than 4 KiB may
 * still be mixed with others.
 */
export function shareDescriptors(): void {
  chunkBytes = SHARED_CHUNK_BYTES
}

/** Delay after a failed write. It doubles with each further failure in a row, up to the maximum. */
const FIRST_RETRY_MS = 2
const LONGEST_RETRY_MS = 100

/** Time limit for the remaining lines at the exit, when the event loop no longer turns. */
const EXIT_MS = 100

/** A write that takes longer is blocked in the kernel by a reader that has stopped. */
const HUNG_MS = 150

/** @param dropped - Number of lines. @param reason - The last system error code; `EAGAIN` if the reader is slow. */
type OnDropped = (dropped: number, reason: string) => void

const opened = new Map<1 | 2, LineWriter>()

/**
 * Opens a descriptor for lines; the process has one writer per descriptor. Writing never blocks, and no failure ends the
 * server or keeps it from ending: a full disk, or a reader that is gone or does not read.
 *
 * @param onDropped - Called when writing is possible again after lines were dropped.
 */
export function openLines(descriptor: 1 | 2, onDropped: OnDropped): DestinationStream {
  const lines = opened.get(descriptor) ?? openDescriptor(descriptor)
  lines.onDropped = onDropped
  return { write: (line) => lines.write(line) }
}

function openDescriptor(descriptor: 1 | 2): LineWriter {
  // Creating its stream makes Node set a pipe to non-blocking. Otherwise a write could block forever, and so could the
  // exit of the process.
  void (descriptor === 1 ? process.stdout : process.stderr)
  const lines = new LineWriter({ descriptor, maxBytes: MAX_WAITING_BYTES })
  opened.set(descriptor, lines)
  process.on('exit', () => {
    lines.writeRest(EXIT_MS)
    if (lines.isHung) killProcess()
  })
  return lines
}

/** Waits until all lines of the process are written, for at most `limitMs`. Call it before the process exits. */
export async function settleLines(limitMs: number): Promise<void> {
  await Promise.all([...opened.values()].map((lines) => lines.settled(limitMs)))
}

/** System calls of {@link LineWriter} on its descriptor. */
interface LineSink {
  write(bytes: Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void): void
  writeSync(bytes: Buffer): number
}

interface LineWriterOptions extends Partial<LineSink> {
  readonly descriptor?: number
  /** Maximum buffered bytes. */
  readonly maxBytes: number
  readonly onDropped?: OnDropped
}

/** Writes lines to a descriptor in chunks, buffers lines that cannot be written, and counts dropped ones. */
export class LineWriter {
  onDropped: OnDropped
  readonly #sink: LineSink
  readonly #maxBytes: number
  #chunks: string[] = []
  #lastChunkBytes = 0
  /** The bytes being written, or the rest of them. */
  #rest: Buffer = NO_BYTES
  /** Size of the chunks and the rest. */
  #bytes = 0
  /** Start time of the pending write. */
  #begunAt: number | undefined
  #retry: NodeJS.Timeout | undefined
  #retryMs = FIRST_RETRY_MS
  #isDropping = false
  #dropped = 0
  #reason = 'EAGAIN'
  readonly #waiting = new Set<(isDone: boolean) => void>()

  constructor({ descriptor = -1, maxBytes, onDropped = () => undefined, ...sink }: LineWriterOptions) {
    this.#sink = {
      write: (bytes, done) => write(descriptor, bytes, done),
      writeSync: (bytes) => writeSync(descriptor, bytes),
      ...sink,
    }
    this.#maxBytes = maxBytes
    this.onDropped = onDropped
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line)
    if (this.#isDropping || this.#bytes + bytes > this.#maxBytes) {
      this.#isDropping = true
      this.#dropped++
      return
    }
    const last = this.#chunks.length - 1
    if (last >= 0 && this.#lastChunkBytes + bytes <= chunkBytes) {
      this.#chunks[last] += line
      this.#lastChunkBytes += bytes
    } else {
      this.#chunks.push(line)
      this.#lastChunkBytes = bytes
    }
    this.#bytes += bytes
    if (this.#begunAt === undefined && !this.#retry) this.#begin()
  }

  /** Whether a write is blocked in the kernel: the exit of the process would wait for it. */
  get isHung(): boolean {
    return this.#begunAt !== undefined && performance.now() - this.#begunAt >= HUNG_MS
  }

  /**
   * Waits until all lines are written, for at most `limitMs`, and only until the descriptor fails for another reason than a
   * slow reader.
   *
   * @returns whether all were written.
   */
  async settled(limitMs: number): Promise<boolean> {
    if (this.#bytes === 0) return true
    let timer: NodeJS.Timeout | undefined
    let resolve: (isDone: boolean) => void = () => undefined
    const settled = new Promise<boolean>((each) => (resolve = each))
    this.#waiting.add(resolve)
    timer = setTimeout(() => resolve(false), limitMs)
    if (this.#retry) {
      clearTimeout(this.#retry)
      this.#retry = undefined
      this.#retryMs = FIRST_RETRY_MS
      this.#begin()
    }
    try {
      return await settled
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(resolve)
    }
  }

  /** Writes the rest synchronously, for at most `limitMs`. A pending write is left to the system. */
  writeRest(limitMs: number): void {
    if (this.isHung) return
    const until = performance.now() + limitMs
    const begun = this.#begunAt === undefined ? this.#rest : NO_BYTES
    let rest = Buffer.concat([begun, Buffer.from(this.#chunks.splice(0).join(''))])
    while (rest.length > 0) {
      try {
        rest = rest.subarray(this.#sink.writeSync(rest))
      } catch (error) {
        if (!isBusy(error) || performance.now() >= until) return
        Atomics.wait(NEVER, 0, 0, FIRST_RETRY_MS)
      }
    }
  }

  #begin(): void {
    if (this.#rest.length === 0) this.#rest = Buffer.from(this.#chunks.shift() ?? '')
    if (this.#rest.length === 0) {
      this.#settle(true)
      return
    }
    this.#begunAt = performance.now()
    this.#sink.write(this.#rest, (error, written) => this.#done(error, written))
  }

  #done(error: NodeJS.ErrnoException | null, written: number): void {
    if (error) {
      this.#wait(error)
      return
    }
    this.#retryMs = FIRST_RETRY_MS
    this.#rest = this.#rest.subarray(written)
    this.#bytes -= written
    if (this.#isDropping && this.#bytes <= this.#maxBytes / 2) this.#reportDropped() // which may write a line
    this.#begunAt = undefined
    this.#begin()
  }

  /** Only when there is enough space, or a slow reader would read little else. */
  #reportDropped(): void {
    const [dropped, reason] = [this.#dropped, this.#reason]
    this.#isDropping = false
    this.#dropped = 0
    this.#reason = 'EAGAIN'
    this.onDropped(dropped, reason)
  }

  /** Does not keep the process alive. */
  #wait(error: NodeJS.ErrnoException): void {
    this.#begunAt = undefined
    if (!isBusy(error)) {
      this.#reason = error.code ?? error.message
      this.#settle(false)
    }
    const again = () => {
      this.#retry = undefined
      this.#begin()
    }
    this.#retry = setTimeout(again, this.#retryMs).unref()
    this.#retryMs = Math.min(2 * this.#retryMs, LONGEST_RETRY_MS)
  }

  #settle(isDone: boolean): void {
    for (const resolve of this.#waiting) resolve(isDone)
  }
}

/** The reader is slow: a temporary condition. */
function isBusy(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'EAGAIN' || code === 'EBUSY'
}

const NO_BYTES = Buffer.alloc(0)
const NEVER = new Int32Array(new SharedArrayBuffer(4))

const GRAY = 90
const LEVEL_COLOURS: Readonly<Record<string, number>> = { info: 32, warn: 33, error: 31, fatal: 31 }

/**
 * Renders a log entry for a terminal: `12:34:56 WARN  message key=value ...`, with the stack of an error below it.
 *
 * @param entry - As written by pino: level, time, msg, and other fields.
 */
export function renderLine(
  { level, time, msg, err, ...fields }: Readonly<Record<string, unknown>>,
  colours = false,
): string {
  const paint = (colour: number, text: string) => (colours ? `\x1b[${colour}m${text}\x1b[0m` : text)
  const label = paint(LEVEL_COLOURS[String(level)] ?? GRAY, String(level).toUpperCase().padEnd(5))
  const rest = Object.entries(fields).map(([key, value]) => `${key}=${renderValue(value)}`)
  const text = [
    paint(GRAY, String(time).slice(11, 19)),
    label,
    printable(String(msg ?? '')),
    paint(GRAY, rest.join(' ')),
  ]
  const stack = (err as { readonly stack?: string } | undefined)?.stack?.split('\n') ?? []
  return [text.join(' '), ...stack.map((frame) => paint(GRAY, printable(frame)))]
    .map((line) => `${line}\n`)
    .join('')
}

function renderValue(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : printable(JSON.stringify(value))
}
