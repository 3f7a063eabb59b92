import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { bundleThreads } from '../../scripts/bundle.ts'

const PREFIX = 'wasm-serve-tests-'

/**
 * Tests run the sources; only the files of threads are made first. All temporary files are in one folder, which is
 * removed at the end, whatever was killed before. Vitest calls this once more for each project: folders in folders would
 * make paths that are too long for sockets.
 */
export async function setup(): Promise<(() => void) | undefined> {
  if (basename(tmpdir()).startsWith(PREFIX)) return undefined
  await bundleThreads()
  const folder = mkdtempSync(join(tmpdir(), PREFIX))
  chmodSync(folder, 0o1777) // some tests are another user
  process.env.TMPDIR = folder
  return () => rmSync(folder, { recursive: true, force: true })
}
