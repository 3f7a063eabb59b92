import { readFile, stat } from 'node:fs/promises'
import { extname } from 'node:path'
import { type ConfigMap, nodeAt, toData } from '../../options/config-node.ts'
import { isUrl, splitPin } from '../../plugin/source/url.ts'
import { schemaOfScript } from '../../script/function-types.ts'
import { isScript } from '../../script/script.ts'

/**
 * Inputs and outputs of a plug-in's functions, from its XTP schema.
 *
 * @see {@link https://docs.xtp.dylibso.com/docs/concepts/xtp-schema}
 */
export interface XtpSchema {
  readonly exports: ReadonlyMap<string, XtpExport>
  /** Types of the plug-in by name, as JSON schemas. */
  readonly schemas: ReadonlyMap<string, JsonSchema>
}

interface XtpExport {
  readonly description: string | undefined
  readonly input: XtpValue | undefined
  readonly output: XtpValue | undefined
}

export interface XtpValue {
  readonly contentType: string
  readonly schema: JsonSchema
}

/** The path of the schema: beside the plug-in. XTP keeps it in a file, not in the module. */
const ENDINGS = ['.schema.yaml', '.schema.yml', '.schema.json']

/** The size above which a file is treated as a mistake. */
const MAX_SCHEMA_BYTES = 262_144

/** Maximum depth of schemas. More deeply nested ones allow anything. */
const MAX_SCHEMA_DEPTH = 32

/** A route with the source of its plug-in. */
interface DocumentedRoute {
  readonly configured: ConfigMap
  /** The version that answers; an artifact of a registry may carry its schema. */
  readonly live: { readonly companions?: { readonly xtpSchema?: string | undefined } | undefined }
}

/** The schemas of the plug-ins of routes, one per route in order: that of the artifact, or the file beside the plug-in. */
export async function readXtpSchemas(routes: readonly DocumentedRoute[]): Promise<(XtpSchema | undefined)[]> {
  const read = new Map<string, Promise<XtpSchema | undefined>>()
  return Promise.all(
    routes.map(({ configured, live }) => {
      if (live.companions?.xtpSchema !== undefined) return parseXtpSchema(live.companions.xtpSchema)
      const source = String(toData(nodeAt(configured, ['plugin']) ?? configured))
      const pinned = splitPin(source)
      if (isUrl(source) || 'problem' in pinned) return undefined
      const path = pinned.place
      const found = read.get(path) ?? readBeside(path)
      read.set(path, found)
      return found
    }),
  )
}

/**
 * The schema of a plug-in: that of its artifact, or the file beside it.
 *
 * @param source - Path or URL of the plug-in.
 * @param text - The schema that travels with its artifact.
 * @param refuse - Called with the reason that a schema cannot be used.
 */
export async function readXtpSchema(
  source: string,
  text?: string,
  refuse: Refuse = ignore,
): Promise<XtpSchema | undefined> {
  if (text !== undefined) return parseXtpSchema(text, refuse)
  const pinned = splitPin(source)
  return isUrl(source) || 'problem' in pinned ? undefined : readBeside(pinned.place, refuse)
}

/** Learns why a schema cannot be used. */
type Refuse = (problem: string) => void

const ignore = (): void => undefined

async function readBeside(path: string, refuse: Refuse = ignore): Promise<XtpSchema | undefined> {
  const text = await readXtpText(path, refuse)
  return text === undefined ? undefined : parseXtpSchema(text, refuse)
}

/** The text of the schema beside a plug-in, or that of the types of a script. @returns undefined if there is none. */
export async function readXtpText(path: string, refuse: Refuse = ignore): Promise<string | undefined> {
  const base = path.slice(0, path.length - extname(path).length)
  for (const ending of ENDINGS) {
    const text = await readSmall(base + ending, refuse)
    if (text !== undefined) return text
  }
  const script = isScript(path) ? await readSmall(path, ignore) : undefined
  const schema = script === undefined ? undefined : schemaOfScript(script)
  return schema && JSON.stringify(schema)
}

async function readSmall(path: string, refuse: Refuse): Promise<string | undefined> {
  try {
    const found = await stat(path)
    if (!found.isFile()) return undefined
    if (found.size <= MAX_SCHEMA_BYTES) return await readFile(path, 'utf8')
    refuse(`it has more than ${MAX_SCHEMA_BYTES} bytes`)
    return undefined
  } catch {
    return undefined // usually there is no schema
  }
}

/** @returns undefined if it is not a schema of version 1: earlier versions contain only names. */
export async function parseXtpSchema(text: string, refuse: Refuse = ignore): Promise<XtpSchema | undefined> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) {
    refuse(`it is not YAML: ${error.message.split('\n', 1)[0]}`)
    return undefined
  }
  const root = toMap(document.toJS({ maxAliasCount: 100 }))
  if (!/^v1(?:-draft)?$/.test(String(root.get('version')))) {
    refuse('its version is not v1-draft')
    return undefined
  }
  const schemas = toMap(toMap(root.get('components')).get('schemas'))
  return {
    exports: new Map([...toMap(root.get('exports'))].map(([name, value]) => [name, toExport(value)])),
    schemas: new Map([...schemas].map(([name, value]) => [name, toJsonSchema(value)])),
  }
}

function toExport(value: unknown): XtpExport {
  const map = toMap(value)
  return {
    description: textField(map.get('description')),
    input: toValue(map.get('input')),
    output: toValue(map.get('output')),
  }
}

function toValue(value: unknown): XtpValue | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const schema = toJsonSchema(value)
  const isText = schema.type === 'string'
  const contentType =
    textField(toMap(value).get('contentType')) ?? (isText ? 'text/plain' : 'application/json')
  return { contentType, schema }
}

/** XTP's types are those of JSON schema, plus `buffer`, which is base64 in JSON. */
function toJsonSchema(value: unknown, depth = 0): JsonSchema {
  const map = toMap(value)
  const reference = textField(map.get('$ref'))
  if (reference !== undefined) return { $ref: reference }
  if (depth === MAX_SCHEMA_DEPTH) return {}
  const type = textField(map.get('type')) ?? (map.has('properties') ? 'object' : undefined)
  const names = map.get('enum')
  const required = map.get('required')
  const description = textField(map.get('description'))
  const isNullable = map.get('nullable') === true
  const shown = type === 'buffer' ? 'string' : type
  const isKnown = shown !== undefined && TYPES.has(shown)
  return {
    ...(isKnown && { type: isNullable ? [shown, 'null'] : shown }),
    ...(type === 'buffer' && { contentEncoding: 'base64' }),
    ...(description !== undefined && { description }),
    ...(textField(map.get('format')) !== undefined && { format: textField(map.get('format')) ?? '' }),
    ...(Array.isArray(names) && names.length > 0 && { enum: names }),
    ...(map.has('items') && { items: toJsonSchema(map.get('items'), depth + 1) }),
    ...(map.has('properties') && { properties: toProperties(map.get('properties'), depth) }),
    ...(Array.isArray(required) && { required: required.map(String) }),
    ...(typeof map.get('additionalProperties') === 'object' && {
      additionalProperties: toJsonSchema(map.get('additionalProperties'), depth + 1),
    }),
  }
}

const TYPES = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array'])

function toProperties(value: unknown, depth: number): Record<string, JsonSchema> {
  return Object.fromEntries([...toMap(value)].map(([name, item]) => [name, toJsonSchema(item, depth + 1)]))
}

function toMap(value: unknown): ReadonlyMap<string, unknown> {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
  return new Map(isMap ? Object.entries(value) : [])
}

function textField(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The part of JSON schema that these documents need. (2020-12, as in OpenAPI 3.1) */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly contentEncoding?: string
  readonly contentMediaType?: string
}
