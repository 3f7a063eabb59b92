import type { FastifyBaseLogger } from 'fastify'
import pino, { type DestinationStream } from 'pino'
import { openLines } from './lines.ts'
import { renderLine } from './readable-line.ts'
import type { RecentLines } from './recent-lines.ts'
import type { Secrets } from './secrets.ts'

/** Where a person reads along. */
export interface Terminal {
  write(text: string): void
  readonly colours: boolean
}

/**
 * Opens the log: readable lines on a terminal, else JSON lines on standard error.
 *
 * @param secrets - What no line shows; a reload may add to them.
 * @param recent - Keeps the last lines.
 */
export function openLog(
  level: string,
  terminal?: Terminal,
  secrets?: Secrets,
  recent?: RecentLines,
): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  const shown = terminal ? readableLines(terminal) : openLines(2)
  const destination = recent ? withCopy(shown, recent) : shown
  return pino(options, secrets ? withoutSecrets(destination, secrets) : destination)
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
