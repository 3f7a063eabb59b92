import type { FastifyBaseLogger } from 'fastify'
import pino, { type DestinationStream } from 'pino'
import { openLines } from './lines.ts'
import { renderLine } from './readable-line.ts'
import type { RecentLines } from './recent-lines.ts'
import type { Secrets } from './secrets.ts'

/** Takes lines of JSON, each with its end. */
export type LineStream = DestinationStream

/** Where a person reads along. */
export interface Terminal {
  write(text: string): void
  readonly colours: boolean
}

/** Where a log goes, and what it leaves out. */
export interface LogOptions {
  /** Takes readable lines. */
  readonly terminal?: Terminal | undefined
  /** Takes lines of JSON where there is no terminal. Default: standard error. */
  readonly lines?: LineStream | undefined
  /** Values that no line shows; a reload may add to them. */
  readonly secrets?: Secrets
  /** Keeps the last lines. */
  readonly recent?: RecentLines | undefined
}

/** Opens the log: readable lines on a terminal, else lines of JSON. */
export function openLog(
  level: string,
  { terminal, lines, secrets, recent }: LogOptions = {},
): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  const report = (dropped: number, reason: string) =>
    log.error({ dropped, reason }, 'the log could not be written')
  const shown = terminal ? readableLines(terminal) : (lines ?? openLines(2, report))
  const destination = recent ? withCopy(shown, recent) : shown
  const log = pino(options, secrets ? withoutSecrets(destination, secrets) : destination)
  return log
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

function readableLines({ write, colours }: Terminal): DestinationStream {
  return { write: (line) => write(renderLine(JSON.parse(line), colours)) }
}
