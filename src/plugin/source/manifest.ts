import { resolve } from 'node:path'
import { ManifestInvalidError } from '../../errors/errors.ts'
import { type JsonMistake, parseJson } from '../../platform/json-text.ts'
import { hostProblem } from './allowed-hosts.ts'
import { Fields, type ManifestModule, Problems, readModules } from './manifest-module.ts'

/** A validated Extism manifest: paths are absolute, every module has a name, exactly one is `main`. */
export interface Manifest extends ManifestSettings {
  readonly modules: readonly ManifestModule[]
}

/** The run-time settings of a manifest; undefined where it has none. */
export interface ManifestSettings {
  /** Whether it comes from the network and so is not trusted like a local file. */
  readonly isRemote: boolean
  readonly memory: {
    /** Maximum of the guest's own memory, in pages of 64 KiB. */
    readonly maxPages: number | undefined
    readonly maxHttpResponseBytes: number | undefined
    /** 0 disables variables. */
    readonly maxVarBytes: number | undefined
  }
  /** 0: no deadline, as in Extism's Go and JavaScript SDKs; its Rust runtime ends every call immediately. */
  readonly timeoutMs: number | undefined
  readonly config: Readonly<Record<string, string>>
  /** Patterns of `allowHosts`; empty: none. */
  readonly allowedHosts: readonly string[] | undefined
  readonly allowedPaths: readonly AllowedPath[]
}

/** A folder of the host that the guest can access. */
export interface AllowedPath {
  /** Absolute. */
  readonly host: string
  readonly guest: string
  readonly readOnly: boolean
}

/** The origin of a manifest. */
export interface ManifestBase {
  /** The name in messages. */
  readonly name: string
  /**
   * Its folder, to which relative paths refer, or its URL. A manifest from the network cannot name files: it must not reach
   * into the machine that reads it.
   */
  readonly base: string | URL
}

/** The size above which a file is treated as a mistake; V8 could not hold all larger ones as a string. */
const MAX_MANIFEST = 67_108_864

/** A module is never treated as a manifest. A file named `.json` that is neither gets the manifest's messages. */
export function isManifest({ bytes, name }: ManifestBytes): boolean {
  const start = Buffer.from(bytes.subarray(0, 64)).toString('latin1')
  if (start.startsWith('\0asm')) return false
  return name.toLowerCase().endsWith('.json') || /^(?:\xef\xbb\xbf)?\s*\{/.test(start)
}

/** The text of a manifest. @throws {@link ManifestInvalidError} */
export function decodeManifest({ bytes, name }: ManifestBytes): string {
  if (bytes.length > MAX_MANIFEST)
    throw new ManifestInvalidError(name, `  manifest: is larger than ${MAX_MANIFEST} bytes`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new ManifestInvalidError(name, '  manifest: is not UTF-8 text', { cause: error })
  }
}

interface ManifestBytes extends Pick<ManifestBase, 'name'> {
  readonly bytes: Uint8Array
}

const MANIFEST_KEYS = ['wasm', 'memory', 'config', 'allowed_hosts', 'allowed_paths', 'timeout_ms']
const MEMORY_KEYS = ['max_pages', 'max_http_response_bytes', 'max_var_bytes']

/**
 * Reads an Extism manifest, with keys as Extism writes them (`max_pages`) or as its JavaScript SDK does (`maxPages`).
 *
 * Relative paths refer to the manifest's folder, not to the working folder as in Extism's own SDKs. `allowed_paths` maps
 * the host's path to the guest's, as Extism defines it, in both spellings: the JavaScript SDK reverses it.
 *
 * @param manifest - JSON text, or an object; in an object `data` may be bytes instead of base64, and `url` a `URL`.
 * @throws {@link ManifestInvalidError} listing every problem; broken JSON with line and column.
 * @see {@link https://github.com/extism/extism/blob/main/manifest/schema.json}
 */
export function parseManifest(manifest: string | object, { name, base }: ManifestBase): Manifest {
  const problems = new Problems()
  const root = new Fields(
    typeof manifest === 'string' ? parseText(manifest, name) : manifest,
    '',
    MANIFEST_KEYS,
    problems,
  )
  const memory = root.fields('memory', MEMORY_KEYS)
  const parsed: Manifest = {
    isRemote: base instanceof URL,
    modules: readModules(root, base, problems),
    memory: {
      maxPages: memory.integer('max_pages', 1, 65_536),
      maxHttpResponseBytes: memory.integer('max_http_response_bytes', 0, Number.MAX_SAFE_INTEGER),
      maxVarBytes: memory.integer('max_var_bytes', 0, Number.MAX_SAFE_INTEGER),
    },
    timeoutMs: root.integer('timeout_ms', 0, 2_147_483_647),
    config: Object.fromEntries(root.pairs('config')),
    allowedHosts: root.texts('allowed_hosts', hostProblem),
    allowedPaths: readAllowedPaths(root, base),
  }
  if (problems.any) throw new ManifestInvalidError(name, problems.render())
  return parsed
}

function parseText(text: string, name: string): unknown {
  const parsed = parseJson(text.replace(/^\uFEFF/, ''))
  if ('value' in parsed) return parsed.value
  throw new ManifestInvalidError(name, renderMistake(parsed.mistake))
}

function renderMistake({ line, column, reason }: JsonMistake): string {
  return `  line ${line}, column ${column}: it is not JSON: ${reason}`
}

function readAllowedPaths(root: Fields, base: string | URL): AllowedPath[] {
  const pairs = root.pairs('allowed_paths')
  if (!(base instanceof URL)) return pairs.map(([host, guest]) => readAllowedPath(host, guest, base))
  if (pairs.length > 0) root.refuse('allowed_paths', 'a manifest from the network cannot open local folders')
  return []
}

function readAllowedPath(host: string, guest: string, folder: string): AllowedPath {
  const readOnly = host.startsWith('ro:')
  return { host: resolve(folder, readOnly ? host.slice(3) : host), guest, readOnly }
}
