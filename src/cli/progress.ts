import { openLog } from '../observe/log/log.ts'
import { printable } from '../platform/text.ts'
import type { Transfer } from '../plugin/oci/registry.ts'
import type { Host } from './command.ts'

/** How long a transfer shows nothing. */
const QUIET_MS = 1_000

/** The time between two lines of one transfer. */
const SHOW_AGAIN_MS = 200

/** A transfer that is under way. */
interface Shown {
  readonly begun: number
  /** undefined: nothing was shown yet. */
  shown?: number
}

/**
 * Shows transfers that take longer than a second: on a terminal a line that changes, with bytes, rate and remaining time;
 * else one line of the log when the transfer has ended.
 *
 * @param verb - In the past tense, such as `pulled`.
 * @param now - A clock in ms, for tests.
 */
export function showTransfers(
  { logTerminal, logLines, secrets }: Pick<Host, 'logTerminal' | 'logLines' | 'secrets'>,
  verb: 'pulled' | 'pushed',
  now: () => number = () => performance.now(),
): (transfer: Transfer) => void {
  const running = new Map<string, Shown>()
  return ({ name, digest, done, total }) => {
    const transfer = running.get(digest) ?? { begun: now() }
    running.set(digest, transfer)
    const ms = now() - transfer.begun
    const isEnd = done >= total
    if (isEnd) running.delete(digest)
    if (ms < QUIET_MS || done === 0) return // without a byte there is no rate
    if (!logTerminal) {
      if (isEnd)
        openLog('info', { lines: logLines, secrets }).info(
          { name, digest, bytes: total, ms: Math.round(ms) },
          verb,
        )
      return
    }
    if (!isEnd && transfer.shown !== undefined && now() - transfer.shown < SHOW_AGAIN_MS) return
    transfer.shown = now()
    const line = isEnd
      ? `${verb} ${name}: ${renderBytes(total)} in ${renderSeconds(ms)}`
      : `${name}: ${renderBytes(done)} of ${renderBytes(total)}, ${renderBytes((done / ms) * 1_000)}/s, ${renderSeconds((ms / done) * (total - done))} left`
    logTerminal.write(`\r\x1b[K${printable(line)}${isEnd ? '\n' : ''}`)
  }
}

function renderBytes(bytes: number): string {
  const mebibytes = bytes / 1_048_576
  return mebibytes < 1 ? `${Math.round(bytes / 1_024)} KiB` : `${mebibytes.toFixed(1)} MiB`
}

function renderSeconds(ms: number): string {
  return `${Math.ceil(ms / 1_000)} s`
}
