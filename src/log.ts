import type { FastifyBaseLogger } from 'fastify'
import pino, { type DestinationStream } from 'pino'
import { printable } from './printable.ts'

/** Where a person reads along. */
export interface Terminal {
  write(text: string): void
  readonly colours: boolean
}

/** Opens the log: readable lines on a terminal, else JSON lines on standard error. */
export function openLog(level: string, terminal?: Terminal): FastifyBaseLogger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  return pino(options, terminal ? readableLines(terminal) : jsonLines())
}

function jsonLines(): DestinationStream {
  const destination = pino.destination({ dest: 2, sync: false })
  destination.on('error', () => undefined) // a full disk or a reader that went away must not end the server
  return destination
}

const GRAY = 90
const LEVEL_COLOURS: Readonly<Record<string, number>> = { info: 32, warn: 33, error: 31, fatal: 31 }

/** `12:34:56 WARN  message key=value ...`, and the stack of an error below it. */
function readableLines({ write, colours }: Terminal): DestinationStream {
  const paint = (colour: number, text: string) => (colours ? `\x1b[${colour}m${text}\x1b[0m` : text)
  return {
    write(line) {
      const { level, time, msg, err, ...fields } = JSON.parse(line)
      const label = paint(LEVEL_COLOURS[level] ?? GRAY, String(level).toUpperCase().padEnd(5))
      const rest = Object.entries(fields).map(([key, value]) => `${key}=${renderValue(value)}`)
      const text = [
        paint(GRAY, String(time).slice(11, 19)),
        label,
        printable(msg ?? ''),
        paint(GRAY, rest.join(' ')),
      ]
      write(`${text.join(' ')}\n`)
      for (const frame of err?.stack?.split('\n') ?? []) write(`${paint(GRAY, printable(frame))}\n`)
    },
  }
}

function renderValue(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : printable(JSON.stringify(value))
}
