import { readFile } from 'node:fs/promises'
import type { Anything } from './output.ts'
import type { ManifestOptions, NamedModule } from './plugin.ts'

export interface ManifestWasmData {
  data: Uint8Array
}

export interface ManifestWasmUrl {
  url: URL | string
}

export interface ManifestWasmPath {
  path: string
}

export interface ManifestWasmResponse {
  response: Response
}

export interface ManifestWasmModule {
  module: WebAssembly.Module
}

/** A module of a manifest: its source, its name for imports of other modules, and the SHA-256 digest of its bytes. */
export type ManifestWasm = (
  | ManifestWasmUrl
  | ManifestWasmData
  | ManifestWasmPath
  | ManifestWasmResponse
  | ManifestWasmModule
) & {
  name?: string
  hash?: string
}

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Capitalize<First> ? '_' : ''}${Lowercase<First>}${SnakeCase<Rest>}`
  : Name

/** Modules and options. Options of `createPlugin` override them. Names may be in snake case. */
export type ExtismManifest = { wasm: ManifestWasm[] } & ManifestOptions & {
    [Name in keyof ManifestOptions as SnakeCase<Name>]?: ManifestOptions[Name]
  }

/**
 * The first argument of `createPlugin`: a manifest or its JSON; a module, its bytes or its path; a URL or a response with
 * one of these.
 */
export type ManifestLike = ExtismManifest | Response | WebAssembly.Module | ArrayBuffer | string | URL

/** The modules and options of a manifest. */
interface LoadedManifest {
  readonly modules: readonly NamedModule[]
  readonly options: ManifestOptions
}

/** Compiles a module of a manifest with these options. */
type Compile = (bytes: Uint8Array<ArrayBuffer>, options: ManifestOptions) => Promise<WebAssembly.Module>

/**
 * Reads a manifest, and compiles its modules.
 *
 * @throws TypeError if the manifest is invalid, the error of `compile`, Error if a digest does not match.
 */
export async function readManifest(
  input: ManifestLike,
  fetch: Fetch,
  compile: Compile,
): Promise<LoadedManifest> {
  const manifest = await toManifest(input, fetch)
  const options = optionsOf(manifest)
  const modules = await Promise.all(
    manifest.wasm.map((item, index) =>
      loadManifestModule(item, index, index === manifest.wasm.length - 1, fetch, (bytes) =>
        compile(bytes, options),
      ),
    ),
  )
  if (!modules.some(({ name }) => name === 'main'))
    throw new Error('manifest with multiple modules must designate one "main" module')
  return { modules, options }
}

type Fetch = typeof globalThis.fetch

/** A manifest of which only `wasm` has been checked. */
interface LooseManifest {
  readonly wasm: readonly LooseItem[]
  readonly [option: string]: Anything
}

interface LooseItem {
  readonly data?: Anything
  readonly path?: string
  readonly url?: URL | string
  readonly response?: Response
  readonly module?: WebAssembly.Module
  readonly name?: string
  readonly hash?: string
}

async function toManifest(input: unknown, fetch: Fetch): Promise<LooseManifest> {
  if (typeof input === 'string') {
    if (/^\s*\{/.test(input)) return checkManifest(JSON.parse(input))
    if (!/^(https?|file):\/\//.test(input)) return { wasm: [{ path: input }] }
    return fromUrl(new URL(input), fetch)
  }
  if (input instanceof URL) return fromUrl(input, fetch)
  if (input instanceof WebAssembly.Module) return { wasm: [{ module: input }] }
  if (input instanceof ArrayBuffer || ArrayBuffer.isView(input)) return { wasm: [{ data: input }] }
  if (isResponse(input)) return fromResponse(input)
  return checkManifest(input)
}

async function fromUrl(url: URL, fetch: Fetch): Promise<LooseManifest> {
  if (url.protocol !== 'file:') return fromResponse(await fetch(url, { redirect: 'follow' }))
  if (!url.pathname.endsWith('.json')) return { wasm: [{ url }] }
  return checkManifest(JSON.parse(await readFile(url, 'utf8')))
}

async function fromResponse(response: Response): Promise<LooseManifest> {
  const type = response.headers.get('content-type') || 'application/octet-stream'
  switch (type.split(';')[0]) {
    case 'application/octet-stream':
    case 'application/wasm':
      return { wasm: [{ response }] }
    case 'application/json':
    case 'text/json':
      return checkManifest(await response.json())
    default:
      throw new TypeError(
        `While processing manifest URL "${response.url}"; expected content-type of "text/json", "application/json", "application/octet-stream", or "application/wasm"; got "${type}" after stripping off charset.`,
      )
  }
}

/** Some bundles and mocks have their own class `Response`. */
function isResponse(input: unknown): input is Response {
  return input instanceof Response || (isObject(input) && input.constructor?.name === 'Response')
}

function checkManifest(manifest: unknown): LooseManifest {
  if (!isObject(manifest) || !('wasm' in manifest)) throw new TypeError('Expected "wasm" key in manifest')
  if (!Array.isArray(manifest.wasm)) throw new TypeError('Expected "manifest.wasm" to be array')
  const bad = manifest.wasm.findIndex((item) => !isObject(item) || !SOURCES.some((name) => name in item))
  if (bad === -1) return { ...manifest, wasm: manifest.wasm }
  throw new TypeError(
    `Expected every item in "manifest.wasm" to include either a "data", "url", or "path" key; got bad item at index ${bad}`,
  )
}

const SOURCES = ['data', 'url', 'path', 'module', 'response']

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

async function loadManifestModule(
  item: LooseItem,
  index: number,
  isLast: boolean,
  fetch: Fetch,
  compile: (bytes: Uint8Array<ArrayBuffer>) => Promise<WebAssembly.Module>,
): Promise<NamedModule> {
  const { name, hash } = item
  const bytes = item.module ? undefined : await loadBytes(item, index, fetch)
  if (hash && !bytes)
    throw new Error('Item specified a hash but WebAssembly.Module source data is unavailable for hashing')
  const digest = hash && bytes ? await verifyDigest(bytes, hash) : String(index)
  const module = item.module ?? (await compile(bytes ?? new Uint8Array()))
  return { name: name ?? (isLast ? 'main' : digest), module }
}

async function loadBytes(item: LooseItem, index: number, fetch: Fetch): Promise<Uint8Array<ArrayBuffer>> {
  if (item.data) return toBytes(item.data)
  if (item.path) return new Uint8Array(await readFile(item.path))
  if (item.response) return bodyOf(item.response)
  if (item.url) {
    const url = new URL(item.url)
    if (url.protocol === 'file:') return new Uint8Array(await readFile(url))
    const accept = 'application/wasm;q=0.9,application/octet-stream;q=0.8'
    return bodyOf(await fetch(item.url, { headers: { accept } }))
  }
  const keys = Object.keys(item).sort().join(',')
  throw new Error(`Unrecognized wasm item at index ${index}. Keys include: "${keys}"`)
}

/** Decodes Base64, which stands for bytes in JSON. */
function toBytes(data: unknown): Uint8Array<ArrayBuffer> {
  if (typeof data === 'string') return new Uint8Array(Buffer.from(data, 'base64'))
  if (ArrayBuffer.isView(data))
    return new Uint8Array(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
  if (data instanceof ArrayBuffer) return new Uint8Array(data)
  throw new TypeError('Expected "data" of an item in "manifest.wasm" to be bytes')
}

async function bodyOf(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  if (!response.ok) throw new TypeError(`Cannot load ${response.url}: status code ${response.status}`)
  return new Uint8Array(await response.arrayBuffer())
}

async function verifyDigest(bytes: Uint8Array<ArrayBuffer>, hash: string): Promise<string> {
  const actual = Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex')
  if (actual === hash.toLowerCase()) return actual
  throw new Error(`Plugin error: hash mismatch. Expected: ${hash}. Actual: ${actual}`)
}

/** Extism's other SDKs write names in snake case, so both forms are accepted. */
function optionsOf(manifest: LooseManifest): ManifestOptions {
  const { memory, config } = manifest
  return {
    allowedPaths: manifest.allowedPaths ?? manifest.allowed_paths,
    allowedHosts: manifest.allowedHosts ?? manifest.allowed_hosts,
    timeoutMs: manifest.timeoutMs ?? manifest.timeout_ms,
    config,
    memory: memory && {
      maxPages: memory.maxPages ?? memory.max_pages,
      maxHttpResponseBytes: memory.maxHttpResponseBytes ?? memory.max_http_response_bytes,
      maxVarBytes: memory.maxVarBytes ?? memory.max_var_bytes,
    },
  }
}
