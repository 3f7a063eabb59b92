import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bundleThreads } from '../../scripts/bundle.ts'

/**
 * Tests run the sources; only the files of threads are made first. All temporary files are in one folder, which is
 * removed at the end, whatever was killed before.
 */
export async function setup(): Promise<() => void> {
  await bundleThreads()
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-tests-'))
  chmodSync(folder, 0o1777) // some tests are another user
  process.env.TMPDIR = folder
  return () => rmSync(folder, { recursive: true, force: true })
}
