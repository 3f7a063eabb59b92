import type { Terminal } from '../../observe/log/log.ts'

const WIDTH = 30
const TICK_MS = 100

/**
 * Shows how far a piece of work of known length is, in a line that is gone when it is over.
 *
 * @param terminal - None: nothing is shown.
 * @returns what ends it.
 */
export function showProgress(terminal: Terminal | undefined, name: string, seconds: number): () => void {
  if (!terminal) return () => undefined
  const begun = performance.now()
  const draw = () => {
    const share = Math.min(1, (performance.now() - begun) / (seconds * 1_000))
    const full = Math.round(share * WIDTH)
    terminal.write(`\r${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${Math.round(share * 100)}% ${name}`)
  }
  draw()
  const timer = setInterval(draw, TICK_MS)
  return () => {
    clearInterval(timer)
    terminal.write(CLEAR_LINE)
  }
}

const CLEAR_LINE = '\r\x1b[K'
