import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const SCRIPT = fileURLToPath(new URL('jail.sh', import.meta.url))

/** Folder of the jail where `node` is. */
export const NODE_FOLDER = '/node-bin'

/** Whether this machine lets us: that takes root. */
export const canJail =
  process.getuid?.() === 0 &&
  spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0

/**
 * A command line that runs a command as the user `nobody` in a separate read-only root; see `jail.sh`.
 *
 * @param binds - Files and folders of the host with their path inside; the suffix `:rw` makes them writable. `node` is included.
 */
export function jail(binds: Readonly<Record<string, string>>): [string, ...string[]] {
  const root = mkdtempSync(join(tmpdir(), 'wasm-serve-jail-'))
  onTestFinished(() => rmdirSync(root)) // the mounts are gone by now
  const all = { ...binds, [process.execPath]: `${NODE_FOLDER}/node` }
  const words = Object.entries(all).map(([host, inside]) => `${host}=${inside}`)
  return ['unshare', '--mount', 'sh', SCRIPT, root, ...words, '--']
}
