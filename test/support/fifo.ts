import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { file } from './guest.ts'

/** A pipe that never has anything to read: `readFileSync` of it does not return before it is closed. */
export interface Fifo {
  readonly path: string
  /** Lets all that read it end. */
  close(): void
}

/** @returns a pipe that is open, and closed when the test ends. */
export function openFifo(): Fifo {
  const path = join(tmpdir(), `fifo-${process.pid}-${Math.random().toString(36).slice(2)}`)
  execFileSync('mkfifo', [path])
  const descriptor = openSync(path, constants.O_RDWR) // so that readers wait for bytes, not for a writer
  let isOpen = true
  const close = () => {
    if (isOpen) closeSync(descriptor)
    isOpen = false
  }
  onTestFinished(() => {
    close()
    rmSync(path)
  })
  return { path, close }
}

/** Number of threads of a process that read one of the pipes. */
export function readersOf(pid: number | undefined, ...fifos: readonly Fifo[]): number {
  const folder = `/proc/${pid}/fd`
  const paths = fifos.map(({ path }) => path)
  return readdirSync(folder).filter((descriptor) => {
    try {
      return paths.includes(readlinkSync(join(folder, descriptor)))
    } catch {
      return false // it was closed meanwhile
    }
  }).length
}

/** Host functions for `relay.wat`: reads the file named by the input, if it starts with a slash; otherwise echoes. */
export function readingFunctions(): string {
  return file(
    'reading.mjs',
    `import { readFileSync } from 'node:fs'
export default { env: { relay(context, input) {
  const text = context.read(input).text()
  if (text.startsWith('/')) readFileSync(text)
  return input
} } }`,
  )
}
