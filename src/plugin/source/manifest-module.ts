import { resolve } from 'node:path'
import { didYouMean, isHeader } from '../../platform/text.ts'
import { isHostNamespace } from '../host-imports.ts'
import { isOciReference, type OciReference, parseReference } from '../oci/reference.ts'
import { isLoopback, type Pinned, parseDigest, parseSourceUrl, type Refusal, splitPin } from './url.ts'

/** One module of a manifest, not yet read. */
export interface ManifestModule {
  /** `main`, or the name by which others import it. */
  readonly name: string
  /** SHA-256 in lower-case hex, from `hash` or from `#sha256=`. */
  readonly digest: string | undefined
  readonly from: ManifestFile | ManifestRequest | ManifestArtifact | ManifestBytes
}

interface ManifestFile {
  readonly kind: 'file'
  /** Absolute. */
  readonly path: string
}

interface ManifestRequest {
  readonly kind: 'request'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** In upper case. */
  readonly method: string
}

/** The module of an artifact of a registry. */
interface ManifestArtifact {
  readonly kind: 'artifact'
  readonly reference: OciReference
}

interface ManifestBytes {
  readonly kind: 'bytes'
  readonly bytes: Uint8Array
}

const MAIN_NAME = 'main'

const MODULE_KEYS = ['path', 'url', 'data', 'hash', 'name', 'headers', 'method']

/**
 * Parses the modules of a manifest: their sources and names.
 *
 * @param base - The manifest's folder or URL.
 */
export function readModules(root: Fields, base: string | URL, problems: Problems): ManifestModule[] {
  const items = root.list('wasm')
  if (!root.has('wasm') || items?.length === 0) root.refuse('wasm', 'must list at least one module')
  const entries = Array.from(
    items ?? [],
    (item, index) => new Fields(item, `wasm[${index}]`, MODULE_KEYS, problems),
  )
  const names = nameModules(entries)
  return entries.flatMap((entry, index) => readManifestModule(entry, names[index], base) ?? [])
}

/**
 * Extism's rule: `main` is the only module, or the one with that name, or the only one without a name, or the last. Others
 * are imported by their names.
 */
function nameModules(entries: readonly Fields[]): (string | undefined)[] {
  const present = entries.map((entry) => entry.text('name'))
  const named = present.indexOf(MAIN_NAME)
  const unnamed = entries.filter((entry) => !entry.has('name')).length
  const last = unnamed === 1 ? entries.findIndex((entry) => !entry.has('name')) : entries.length - 1
  const main = named >= 0 ? named : last

  const taken = new Set([MAIN_NAME])
  return entries.map((entry, index) => {
    if (index === main) return MAIN_NAME
    const name = present[index]
    if (!entry.has('name')) entry.refuse('name', 'is missing: only the main module needs none')
    if (name === undefined) return undefined
    if (isHostNamespace(name)) entry.refuse('name', 'is reserved for the host')
    else if (taken.has(name)) entry.refuse('name', `"${name.slice(0, 64)}" is taken by another module`)
    taken.add(name)
    return name
  })
}

function readManifestModule(
  entry: Fields,
  name: string | undefined,
  base: string | URL,
): ManifestModule | undefined {
  const hash = entry.text('hash')
  const digest = hash === undefined ? undefined : parseDigest(hash)
  if (hash !== undefined && digest === undefined)
    entry.refuse('hash', 'must be a SHA-256 digest, 64 hex digits')

  const from = readLocation(entry, base)
  if (!from || name === undefined) return undefined
  if (digest !== undefined && from.digest !== undefined && from.digest !== digest)
    entry.refuse('hash', 'differs from the digest in "#sha256="')
  return { name, digest: digest ?? from.digest, from: from.place }
}

function readLocation(entry: Fields, base: string | URL): Pinned<ManifestModule['from']> | undefined {
  const present = ['path', 'url', 'data'].filter((key) => entry.has(key))
  const [kind, other] = present
  if (other !== undefined) return entry.refuse(other, `and "${kind}" exclude each other`)
  if (kind !== 'url') {
    for (const key of ['headers', 'method']) if (entry.has(key)) entry.refuse(key, 'goes only with "url"')
  }
  switch (kind) {
    case 'path':
      return readPath(entry, base)
    case 'url':
      return readRequest(entry, base)
    case 'data':
      return readData(entry)
    default:
      return entry.refuse('path', 'is missing: a module has a "path", a "url" or "data"')
  }
}

function readPath(entry: Fields, base: string | URL): Pinned<ManifestFile> | undefined {
  const text = entry.text('path')
  if (text === undefined) return undefined
  if (base instanceof URL)
    return entry.refuse('path', 'a manifest from the network cannot name files: use "url"')
  const pinned = splitPin(text)
  if (isRefused(pinned)) return entry.refuse('path', pinned.problem)
  return { place: { kind: 'file', path: resolve(base, pinned.place) }, digest: pinned.digest }
}

function readRequest(
  entry: Fields,
  base: string | URL,
): Pinned<ManifestRequest | ManifestArtifact> | undefined {
  const present = entry.raw('url')
  const text = present instanceof URL ? present.href : entry.text('url')
  const method = (entry.text('method') ?? 'GET').toUpperCase()
  if (!/^[A-Z][A-Z-]{0,31}$/.test(method) || REFUSED_METHODS.has(method))
    return entry.refuse('method', 'must be a method whose response is a module, such as GET, POST or PUT')
  const headers = entry.pairs('headers')
  if (!headers.every((header) => isHeader(...header)))
    entry.refuse(
      'headers',
      'one of them cannot be sent: its name or value has other characters, or is too long',
    )
  if (text === undefined) return undefined
  const from = base instanceof URL ? base : undefined
  if (isOciReference(text)) return readArtifact(entry, text, from)
  const pinned = parseSourceUrl(text, from)
  if (isRefused(pinned)) return entry.refuse('url', pinned.problem)
  const { place: url, digest } = pinned
  return { place: { kind: 'request', url, headers: Object.fromEntries(headers), method }, digest }
}

function readArtifact(
  entry: Fields,
  text: string,
  from: URL | undefined,
): Pinned<ManifestArtifact> | undefined {
  for (const key of ['headers', 'method']) {
    if (entry.has(key)) return entry.refuse(key, 'is not supported for an artifact of a registry')
  }
  const reference = parseReference(text)
  if ('problem' in reference) return entry.refuse('url', reference.problem)
  if (from && !isLoopback(from) && isLoopback(new URL(`http://${reference.registry}`)))
    return entry.refuse('url', 'a manifest from the network must not name a registry of this machine')
  return { place: { kind: 'artifact', reference }, digest: reference.pin }
}

/** Methods without a usable response body, and methods forbidden to clients. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(['CONNECT', 'HEAD', 'TRACE', 'TRACK'])

function readData(entry: Fields): Pinned<ManifestBytes> | undefined {
  const present = entry.raw('data')
  const bytes = present instanceof Uint8Array ? present : decodeBase64(entry)
  return bytes && { place: { kind: 'bytes', bytes }, digest: undefined }
}

function decodeBase64(entry: Fields): Uint8Array | undefined {
  const text = entry.text('data')
  if (text === undefined) return undefined
  const decoded = Buffer.from(text, 'base64')
  // `Buffer` skips invalid characters. A regular expression could overflow its stack on megabytes; this comparison cannot.
  if (decoded.toString('base64') !== text)
    return entry.refuse('data', 'must be base64 (RFC 4648, with padding)')
  return new Uint8Array(decoded) // a small `Buffer` is a view of a shared pool
}

function isRefused(read: Pinned<unknown> | Refusal): read is Refusal {
  return 'problem' in read
}

/** Maximum number of listed problems; further ones are only counted. */
const MAX_PROBLEMS = 50

/** Longer keys are truncated in messages, without suggestions. */
const MAX_KEY = 64

/** The problems of a manifest, each with the path of its key. */
export class Problems {
  readonly #lines: string[] = []
  #count = 0

  get any(): boolean {
    return this.#count > 0
  }

  /** @param message - A function is called only if the problem will be listed. */
  add(path: string, message: string | (() => string)): void {
    this.#count++
    if (this.#count > MAX_PROBLEMS) return
    this.#lines.push(`  ${path || 'manifest'}: ${typeof message === 'string' ? message : message()}`)
  }

  /** Renders one line per problem. */
  render(): string {
    const more = this.#count - this.#lines.length
    return [...this.#lines, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n')
  }
}

/**
 * The fields of one object of a manifest. A key is accepted in snake_case, like Extism's, and in camelCase, like the
 * JavaScript SDK's. `null` counts as omitted, as in Extism. An invalid value is reported and treated as omitted.
 */
export class Fields {
  readonly #path: string
  readonly #problems: Problems
  readonly #values = new Map<string, unknown>()

  /** @param keys - In snake_case. */
  constructor(value: unknown, path: string, keys: readonly string[], problems: Problems) {
    this.#path = path
    this.#problems = problems
    if (!isRecord(value)) {
      problems.add(path, `must be an object, not ${typeName(value)}`)
      return
    }
    const known = new Map(
      keys.flatMap((key) => [
        [key, key],
        [camelCase(key), key],
      ]),
    )
    for (const [written, item] of Object.entries(value)) {
      const key = known.get(written)
      if (key === undefined)
        problems.add(keyPath(path, written), () => `unknown key${suggestion(written, known.keys())}`)
      else if (item === undefined || item === null) continue
      else if (this.#values.has(key))
        problems.add(keyPath(path, written), `is given twice, as ${key} and as ${camelCase(key)}`)
      else this.#values.set(key, item)
    }
  }

  has(key: string): boolean {
    return this.#values.has(key)
  }

  /** Reports a problem of a key's value. */
  refuse(key: string, message: string): undefined {
    this.#problems.add(keyPath(this.#path, key), message)
  }

  /** The raw value. */
  raw(key: string): unknown {
    return this.#values.get(key)
  }

  text(key: string): string | undefined {
    const value = this.#values.get(key)
    if (value === undefined) return undefined
    if (typeof value !== 'string') return this.refuse(key, `must be text, not ${typeName(value)}`)
    return value === '' ? this.refuse(key, 'must not be empty') : value
  }

  integer(key: string, least: number, most: number): number | undefined {
    const value = this.#values.get(key)
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
    const present = typeof value === 'number' ? String(value) : typeName(value)
    return this.refuse(key, `must be a whole number from ${least} to ${most}, not ${present}`)
  }

  list(key: string): readonly unknown[] | undefined {
    const value = this.#values.get(key)
    if (value === undefined || Array.isArray(value)) return value
    return this.refuse(key, `must be a list, not ${typeName(value)}`)
  }

  /** @param whyRefused - Returns the problem of a text, if it has one. */
  texts(key: string, whyRefused: (text: string) => string | undefined): readonly string[] | undefined {
    return this.list(key)?.filter((item, index): item is string => {
      const problem = typeof item === 'string' ? whyRefused(item) : `must be text, not ${typeName(item)}`
      if (problem !== undefined) this.#problems.add(`${keyPath(this.#path, key)}[${index}]`, problem)
      return problem === undefined
    })
  }

  /** An object whose values are all strings, as pairs: so `__proto__` is a normal key. */
  pairs(key: string): readonly (readonly [string, string])[] {
    const value = this.#values.get(key)
    if (value === undefined) return []
    if (!isRecord(value)) {
      this.refuse(key, `must be an object, not ${typeName(value)}`)
      return []
    }
    return Object.entries(value).filter((pair): pair is [string, string] => {
      if (typeof pair[1] === 'string') return true
      const path = keyPath(keyPath(this.#path, key), pair[0])
      this.#problems.add(path, () => `must be text, not ${typeName(pair[1])}`)
      return false
    })
  }

  /** An object with these keys; an empty one if it is omitted. */
  fields(key: string, keys: readonly string[]): Fields {
    return new Fields(this.#values.get(key) ?? {}, keyPath(this.#path, key), keys, this.#problems)
  }
}

function isRecord(value: unknown): value is object {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  )
}

function camelCase(key: string): string {
  return key.replaceAll(/_[a-z]/g, ([, letter = '']) => letter.toUpperCase())
}

function keyPath(parent: string, key: string): string {
  if (key.length > MAX_KEY) return keyPath(parent, `${key.slice(0, MAX_KEY - 3)}...`)
  if (!/^[\w.-]+$/.test(key)) return `${parent}[${JSON.stringify(key)}]`
  return parent ? `${parent}.${key}` : key
}

function suggestion(key: string, known: Iterable<string>): string {
  return key.length > MAX_KEY ? '' : didYouMean(key, known)
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (value instanceof Uint8Array) return 'bytes'
  switch (typeof value) {
    case 'string':
      return 'text'
    case 'object':
      return 'an object'
    case 'undefined':
      return 'nothing'
    default:
      return `a ${typeof value}`
  }
}
