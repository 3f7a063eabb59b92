import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { MICROS_PER_TICK, processTimes } from '../processes.ts'
import type { Load } from './load.ts'

/** What runs, by the file with the body and its content type. */
type Command = (
  bodyFile: string,
  contentType: string,
) => readonly [program: string, flags: readonly string[], more: readonly string[]]

/**
 * Runs a load generator that is a program of its own.
 *
 * @throws when it is not installed, or fails.
 */
export async function runTool(
  load: Load,
  command: Command,
): Promise<{ readonly output: string; readonly busySeconds: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-load-'))
  try {
    const bodyFile = join(folder, 'body')
    writeFileSync(bodyFile, load.body)
    const [program, flags, more] = command(bodyFile, load.headers['content-type'] ?? '')
    const before = childTicks()
    const { stdout } = await promisify(execFile)(program, [...flags, ...more], {
      cwd: ROOT,
      maxBuffer: MAX_OUTPUT,
    })
    return { output: stdout, busySeconds: ((childTicks() - before) * MICROS_PER_TICK) / 1_000_000 }
  } catch (error) {
    throw new Error('the load generator failed: is it installed?', { cause: error })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** hey prints a line for each answer. */
const MAX_OUTPUT = 1_024 * 1_048_576

/** Of those children of this process that have ended. */
function childTicks(): number {
  return processTimes(readFileSync('/proc/self/stat', 'utf8')).endedChildren
}
