import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** An empty folder to work in. */
export function emptyFolder(): string {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  return cwd
}

/** What is in a folder, with what is in the folders in it. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort()
}
