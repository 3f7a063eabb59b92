import type { FastifyBaseLogger } from 'fastify'
import type { DestinationStream } from 'pino'
import pino from 'pino'
import { printableJson } from '../../platform/text.ts'
import { openLines, renderLine } from './lines.ts'
import type { Secrets } from './secrets.ts'

/** Receives lines of JSON with their line ends. */
export type LineStream = DestinationStream

/** A terminal for the log or the results. */
export interface Terminal {
  write(text: string): void
  readonly colours: boolean
}

/** Destination and masking of a log. */
interface LogOptions {
  /** Receives readable lines. */
  readonly terminal?: Terminal | undefined
  /** Receives lines of JSON if there is no terminal. Default: standard error. */
  readonly lines?: LineStream | undefined
  /** Values to mask in all lines; a reload may add some. */
  readonly secrets?: Secrets
  /** Keeps the last lines. */
  readonly recent?: RecentLines | undefined
  /** The number of the serving process, which each line then carries. */
  readonly process?: number | undefined
}

/** Opens the log: readable lines on a terminal, else lines of JSON. */
export function openLog(
  level: string,
  { terminal, lines, secrets, recent, process }: LogOptions = {},
): FastifyBaseLogger {
  const options = {
    level,
    base: process === undefined ? null : { process },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  const report = (dropped: number, reason: string) =>
    log.error({ dropped, reason }, 'the log could not be written')
  const shown = terminal ? readableLines(terminal) : escapedLines(lines ?? openLines(2, report))
  const destination = recent ? withCopy(shown, recent) : shown
  const masked = secrets ? withoutSecrets(destination, secrets) : destination
  const log = pino(options, masked)
  streams.set(log, masked)
  return log
}

const streams = new WeakMap<FastifyBaseLogger, LineStream>()

/**
 * The destination of a log of {@link openLog}, for lines of JSON that are rendered elsewhere. undefined for any other logger:
 * its format is unknown.
 */
export function linesOf(log: FastifyBaseLogger): LineStream | undefined {
  return streams.get(log)
}

function withoutSecrets(destination: DestinationStream, secrets: Secrets): DestinationStream {
  return { write: (line) => destination.write(secrets.hideInJson(line)) }
}

function withCopy(destination: DestinationStream, recent: RecentLines): DestinationStream {
  return {
    write(line) {
      recent.add(line)
      destination.write(line)
    },
  }
}

/** People read these lines on terminals, too. */
function escapedLines(destination: DestinationStream): DestinationStream {
  return { write: (line) => destination.write(printableJson(line)) }
}

function readableLines({ write, colours }: Terminal): DestinationStream {
  return { write: (line) => write(renderLine(JSON.parse(line), colours)) }
}

/** Limits of {@link RecentLines}: lines, and characters of all lines. */
const MAX_RECENT_LINES = 1_000
const MAX_RECENT_CHARACTERS = 1_000_000

/** The last lines of the log, as written, for the admin listener. */
export class RecentLines {
  #lines: string[] = []
  #characters = 0

  add(line: string): void {
    this.#lines.push(line)
    this.#characters += line.length
    while (this.#lines.length > MAX_RECENT_LINES || this.#characters > MAX_RECENT_CHARACTERS) {
      this.#characters -= this.#lines.shift()?.length ?? 0
    }
  }

  /** The oldest first. */
  get all(): readonly string[] {
    return this.#lines
  }
}
