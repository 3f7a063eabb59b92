import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'

/** JSON, as it is in a schema. */
type Json = Readonly<Record<string, unknown>>

/** How the API calls a kind. */
interface Kind {
  readonly group: string
  readonly version: string
  readonly kind: string
}

/** Modules with the definitions of further kinds, as their projects publish them. */
const EXTENSIONS: readonly (readonly [module: string, file: string])[] = [
  ['sigs.k8s.io/gateway-api@v1.4.0', 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
  ['github.com/kedacore/keda/v2@v2.18.1', 'config/crd/bases/keda.sh_scaledobjects.yaml'],
]

/**
 * Schemas for kubeconform: of a version of Kubernetes, from the description of the API in its module, and of extensions.
 * Unknown keys are refused.
 *
 * @param version - Such as `v1.36.3`.
 * @returns the value of `-schema-location`.
 */
export function kubernetesSchemas(version: string): string {
  const folder = mkdtempSync(join(tmpdir(), `wasm-serve-schemas-${version}-`))
  const add = ({ group, version, kind }: Kind, schema: object) => {
    const [prefix = ''] = group.split('.')
    const name = [kind, ...(prefix === '' ? [] : [prefix]), version].join('-')
    writeFileSync(join(folder, `${name.toLowerCase()}.json`), JSON.stringify(schema))
  }
  const swagger = join(moduleFolder(`k8s.io/kubernetes@${version}`), 'api/openapi-spec/swagger.json')
  const definitions = mapValues(JSON.parse(readFileSync(swagger, 'utf8')).definitions, closed)
  for (const [name, definition] of Object.entries(definitions))
    for (const kind of kindsOf(definition))
      add(kind, { $ref: `#/definitions/${name}`, definitions: neededBy(name, definitions) })
  for (const path of extensionFiles()) {
    const { spec } = parse(readFileSync(path, 'utf8'))
    for (const { name, schema } of spec.versions)
      add({ group: spec.group, version: name, kind: spec.names.kind }, closed(schema.openAPIV3Schema))
  }
  return join(folder, '{{ .ResourceKind }}{{ .KindSuffix }}.json')
}

/** Files with definitions of further kinds, which an API server takes too. */
export function extensionFiles(): string[] {
  return EXTENSIONS.map(([module, file]) => join(moduleFolder(module), file))
}

/** The folder of a Go module, which is downloaded once. */
export function moduleFolder(module: string): string {
  const about = execFileSync('go', ['mod', 'download', '-json', module], { encoding: 'utf8' })
  return JSON.parse(about).Dir
}

/** Kinds that a chart may have; options of requests, which belong to all groups, and lists are none. */
function kindsOf(definition: Json): Kind[] {
  const kinds = definition['x-kubernetes-group-version-kind']
  return Array.isArray(kinds) && kinds.length === 1 ? kinds : []
}

/** A schema in which objects with known keys have no others. */
function closed(schema: unknown): Json {
  if (!isObject(schema)) return {}
  const { format, properties, items, additionalProperties, ...rest } = schema
  if (format === 'int-or-string' || rest['x-kubernetes-int-or-string'])
    return { anyOf: [{ type: 'integer' }, { type: 'string' }] }
  return {
    ...rest,
    ...(isObject(properties) && { properties: withCommonKeys(properties), additionalProperties: false }),
    ...(items !== undefined && { items: closed(items) }),
    ...(isObject(additionalProperties) && { additionalProperties: closed(additionalProperties) }),
  }
}

/** The definitions of extensions leave the metadata, which all kinds share, open. */
function withCommonKeys(properties: Json): Json {
  const { metadata } = properties
  const isOpen = isObject(metadata) && metadata.type === 'object' && metadata.properties === undefined
  return { ...mapValues(properties, closed), ...(isOpen && { metadata: { type: 'object' } }) }
}

/** A definition and those that it refers to, directly or through others. */
function neededBy(name: string, definitions: Readonly<Record<string, Json>>): Readonly<Record<string, Json>> {
  const needed = new Map<string, Json>()
  const left = [name]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const definition = definitions[next]
    if (definition === undefined || needed.has(next)) continue
    needed.set(next, definition)
    const references = JSON.stringify(definition).matchAll(/"#\/definitions\/([^"]+)"/g)
    left.push(...[...references].map(([, other = '']) => other))
  }
  return Object.fromEntries(needed)
}

function mapValues(object: Json, change: (value: unknown) => Json): Readonly<Record<string, Json>> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]))
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
