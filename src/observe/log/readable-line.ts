import { printable } from '../../platform/text.ts'

const GRAY = 90
const LEVEL_COLOURS: Readonly<Record<string, number>> = { info: 32, warn: 33, error: 31, fatal: 31 }

/**
 * Renders an entry of the log for a person: `12:34:56 WARN  message key=value ...`, and the stack of an error below it.
 *
 * @param entry - As pino writes it: level, time, msg, and what else there is.
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
