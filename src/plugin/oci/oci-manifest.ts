import { parseJson } from '../../platform/json-text.ts'
import { mediaTypeIn } from './fetch-manifest.ts'
import { isDigest } from './reference.ts'
import type { Descriptor } from './registry.ts'

/** A manifest that lists the manifests for several platforms, or what refers to another manifest. */
export interface OciIndex {
  readonly kind: 'index'
  readonly manifests: readonly Descriptor[]
}

/** A manifest of an artifact or a container image. */
export interface OciManifest {
  readonly kind: 'manifest'
  readonly config: Descriptor
  readonly layers: readonly Descriptor[]
  readonly artifactType: string | undefined
  /** The manifest that this one refers to. */
  readonly subject: Descriptor | undefined
  readonly annotations: Readonly<Record<string, string>>
}

/** Media types of indexes: OCI's and Docker's. */
export const INDEX_TYPES: readonly string[] = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
]

/** Media types of manifests: OCI's and Docker's. */
export const MANIFEST_TYPES: readonly string[] = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
]

/** Limit of layers, as in Docker. */
const MAX_LAYERS = 127

/** Limit of manifests in an index. */
const MAX_MANIFESTS = 1_000

/** Limit of a media type (RFC 6838: twice 127, and a slash). */
const MAX_TYPE = 255

/**
 * Parses a manifest or an index. Its content alone decides which of the two it is, because the `Content-Type` that a registry sends
 * is not covered by the digest (CVE-2021-41190).
 *
 * @returns the problem, if it is neither.
 */
export function parseOciManifest(
  bytes: Uint8Array,
): OciManifest | OciIndex | { readonly kind: 'invalid'; readonly problem: string } {
  try {
    return readDocument(bytes)
  } catch (error) {
    if (error instanceof Mistake) return { kind: 'invalid', problem: error.message }
    throw error
  }
}

/** A problem of the document. */
class Mistake extends Error {}

function readDocument(bytes: Uint8Array): OciManifest | OciIndex {
  const document = record(parseText(bytes), 'its manifest')
  const { schemaVersion, mediaType, manifests, layers, config } = document
  if (schemaVersion !== 2) throw new Mistake('its manifest has another schemaVersion than 2')
  const isIndex = manifests !== undefined
  if (isIndex === (layers !== undefined || config !== undefined))
    throw new Mistake('its manifest must have either "manifests", or "config" and "layers"')
  const types = isIndex ? INDEX_TYPES : MANIFEST_TYPES
  if (mediaType !== undefined && !types.includes(type(mediaType, 'its mediaType')))
    throw new Mistake(`its mediaType is not ${types.join(' or ')}`)
  if (isIndex) return { kind: 'index', manifests: descriptors(manifests, 'manifests', MAX_MANIFESTS) }
  return {
    kind: 'manifest',
    config: descriptor(config, 'config'),
    layers: descriptors(layers, 'layers', MAX_LAYERS),
    artifactType: ifGiven(document.artifactType, 'artifactType', type),
    subject: ifGiven(document.subject, 'subject', descriptor),
    annotations: texts(document.annotations, 'annotations'),
  }
}

function parseText(bytes: Uint8Array): unknown {
  const parsed = parseJson(decode(bytes))
  if ('value' in parsed) return parsed.value
  const { line, column, reason } = parsed.mistake
  throw new Mistake(`its manifest is not JSON: line ${line}, column ${column}: ${reason}`)
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Mistake('its manifest is not UTF-8 text')
  }
}

function descriptors(value: unknown, name: string, limit: number): Descriptor[] {
  if (!Array.isArray(value)) throw new Mistake(`"${name}" is not a list`)
  if (value.length > limit) throw new Mistake(`"${name}" has more than ${limit} entries`)
  return value.map((item, index) => descriptor(item, `${name}[${index}]`))
}

function descriptor(value: unknown, name: string): Descriptor {
  const { mediaType, digest, size, artifactType, annotations, platform } = record(value, name)
  if (typeof digest !== 'string' || !isDigest(digest))
    throw new Mistake(`the digest of ${name} is not "sha256:" with 64 hex digits`)
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0)
    throw new Mistake(`the size of ${name} is not a number of bytes`)
  return {
    mediaType: type(mediaType, `the mediaType of ${name}`),
    digest,
    size,
    artifactType: ifGiven(artifactType, `the artifactType of ${name}`, type),
    annotations: texts(annotations, `the annotations of ${name}`),
    platform: ifGiven(platform, `the platform of ${name}`, readPlatform),
  }
}

/** Absent and null mean that it is not there: Go writes null. */
function ifGiven<Result>(
  value: unknown,
  name: string,
  read: (value: unknown, name: string) => Result,
): Result | undefined {
  return value === undefined || value === null ? undefined : read(value, name)
}

/** @returns undefined if it is empty. */
function readPlatform(value: unknown, name: string): Descriptor['platform'] {
  const { os = '', architecture = '' } = record(value, name)
  if (typeof os !== 'string' || typeof architecture !== 'string')
    throw new Mistake(`${name} has an os or an architecture that is not text`)
  return os === '' && architecture === '' ? undefined : { os, architecture }
}

/** A media type without parameters, in lower case. */
function type(value: unknown, name: string): string {
  if (typeof value === 'string' && value.length <= MAX_TYPE) return mediaTypeIn(value)
  throw new Mistake(`${name} is not a media type`)
}

/** An object of texts without a prototype, so `__proto__` is a normal key. Absent and null mean empty. */
function texts(value: unknown, name: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null)
  if (value === undefined || value === null) return found
  for (const [key, text] of Object.entries(record(value, name))) {
    if (typeof text !== 'string') throw new Mistake(`${name} have a value that is not text`)
    found[key] = text
  }
  return found
}

function record(value: unknown, name: string): Partial<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new Mistake(`${name} is not an object`)
}
