import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type ExamplePlugin, isCommitted, wasmPath } from './plugins.ts'

/**
 * Runs a plug-in's `build.sh`, which writes the plug-in.
 *
 * @returns the bytes that were built.
 * @throws Error with what the script printed, if it fails.
 */
export async function build(plugin: ExamplePlugin): Promise<Uint8Array> {
  const { folder } = plugin
  const script = fileURLToPath(new URL(`${folder}/build.sh`, import.meta.url))
  const env = { TINYGO, ...process.env }
  await promisify(execFile)('bash', [script], { env, maxBuffer: MAX_OUTPUT }).catch((error) => {
    throw new Error(`${folder}/build.sh failed\n${error.stdout}${error.stderr}`)
  })
  return readFileSync(wasmPath(plugin))
}

/** The TinyGo that is built here, of one version wherever that is. */
export const TINYGO = fileURLToPath(new URL('hello-tinygo/toolchain/tinygo', import.meta.url))

const MAX_OUTPUT = 64 * 1_048_576

/**
 * Builds a plug-in and puts the committed file back in place.
 *
 * @returns the bytes that were built.
 * @throws what {@link build} throws.
 */
export async function rebuild(plugin: ExamplePlugin): Promise<Uint8Array> {
  const path = wasmPath(plugin)
  const committed = isCommitted(plugin) ? readFileSync(path) : undefined
  try {
    return await build(plugin)
  } finally {
    if (committed) writeFileSync(path, committed)
  }
}

/**
 * Compares what was built with what is committed.
 *
 * @param found - What was found of its toolchain. Bytes must be equal only where that is what made the committed file.
 */
export function compare(plugin: ExamplePlugin, built: Uint8Array, found: string): Comparison {
  if (!isCommitted(plugin)) return 'not committed'
  if (readFileSync(wasmPath(plugin)).equals(built)) return 'as committed'
  return found === plugin.toolchain.pinned ? 'not as committed' : 'other bytes, of another toolchain'
}

export type Comparison =
  | 'not committed'
  | 'as committed'
  | 'not as committed'
  | 'other bytes, of another toolchain'
