import { ManifestInvalidError } from '../../errors/errors.ts'
import { isObject, parseJson } from '../../platform/json-text.ts'

/** The `path` by which the Extism manifest of an artifact names the artifact's own module. */
export const ARTIFACT_MODULE_PATH = 'plugin.wasm'

/**
 * Puts the module of an artifact into the Extism manifest that travels with it: exactly one entry of `wasm` must be
 * `{ "path": "plugin.wasm" }`, and may have other fields such as `name` and `hash`. So the manifest is valid for any Extism program
 * that has the module in a file of this name beside it. Other modules may be linked by `url` or `data`.
 *
 * @param text - JSON.
 * @param name - The artifact's, for messages.
 * @returns the manifest as an object for `parseManifest`, with the bytes as `data`. Its place is a URL, so it cannot name files.
 * @throws {@link ManifestInvalidError}
 */
export function manifestWithModule(text: string, module: Uint8Array, name: string): object {
  const parsed = parseJson(text)
  if ('mistake' in parsed) {
    const { line, column, reason } = parsed.mistake
    throw new ManifestInvalidError(name, `  line ${line}, column ${column}: it is not JSON: ${reason}`)
  }
  const manifest = parsed.value
  if (!isObject(manifest) || !Array.isArray(manifest.wasm))
    throw new ManifestInvalidError(name, '  wasm: must list the modules')
  const own = manifest.wasm.filter(isOwn)
  if (own.length !== 1) {
    const reason = `${own.length} entries have the path "${ARTIFACT_MODULE_PATH}", the module of the artifact; one must`
    throw new ManifestInvalidError(name, `  wasm: ${reason}`)
  }
  const wasm = manifest.wasm.map((entry) =>
    isOwn(entry) ? { ...entry, path: undefined, data: module } : entry,
  )
  return { ...manifest, wasm }
}

function isOwn(entry: unknown): entry is object {
  return isObject(entry) && entry.path === ARTIFACT_MODULE_PATH
}
