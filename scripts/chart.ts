import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isMap, isScalar, isSeq, type Pair, parseDocument, type YAMLMap } from 'yaml'
import { chartConfigSchema } from './config-schema.ts'

/*
 * Makes the generated files of the Helm chart: values.schema.json, from values.yaml and the schema of config files; copies
 * of the alert rules and the dashboard, which a chart cannot read outside its folder; and the versions in Chart.yaml.
 *
 * npm run reference writes them; `tsx scripts/chart.ts --check` fails if one of them is not current.
 */

const ROOT = new URL('../', import.meta.url)
const CHART = 'deploy/helm/wasm-serve/'
const PAGE = 'docs/operate/kubernetes.md'

/** A value of the chart. */
interface Value {
  /** The path of the value, such as `image.tag`. */
  readonly name: string
  /** undefined if it is an object whose parts are values. */
  readonly default: unknown
  readonly description: string
}

/** The generated files, by their paths from the root of the repository. */
export function renderChart(): Readonly<Record<string, string>> {
  const values = read(`${CHART}values.yaml`)
  const { version } = JSON.parse(read('package.json'))
  return {
    [`${CHART}Chart.yaml`]: read(`${CHART}Chart.yaml`).replaceAll(
      /^(version|appVersion): .*$/gm,
      `$1: ${version}`,
    ),
    [`${CHART}values.schema.json`]: `${JSON.stringify(valuesSchema(values), null, 1)}\n`,
    [`${CHART}files/alerts.yaml`]: read('deploy/prometheus/alerts.yaml'),
    [`${CHART}files/dashboard.json`]: read('deploy/grafana/dashboard.json'),
    [PAGE]: read(PAGE).replace(
      /(<!-- values -->\n)[\s\S]*?(<!-- \/values -->)/,
      (_, begin, end) => `${begin}${renderValues(values)}${end}`,
    ),
  }
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

function valuesSchema(values: string): object {
  const { additionalProperties, properties, required } = schemaOfMap(mapIn(values))
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart wasm-serve',
    type: 'object',
    additionalProperties,
    required,
    properties: {
      ...properties,
      config: chartConfigSchema(),
      global: { type: 'object', description: 'Values of a chart that contains this one.' },
    },
  }
}

/** The table of values. Large defaults are in values.yaml only. */
function renderValues(values: string): string {
  const rows = valuesOf('', mapIn(values)).map(({ name, default: value, description }) => {
    const text = JSON.stringify(value) ?? ''
    const shown = text === '' || text.length > 60 ? '' : `\`${text}\``
    return `| \`${name}\` | ${shown} | ${description.replaceAll('|', '\\|')} |`
  })
  return ['| value | default | |', '| --- | --- | --- |', ...rows, ''].join('\n')
}

function valuesOf(prefix: string, map: YAMLMap): Value[] {
  return pairsOf(map).flatMap(({ name, value, description }) => {
    const path = prefix + name
    if (isMap(value) && isDescribed(value))
      return [{ name: path, default: undefined, description }, ...valuesOf(`${path}.`, value)]
    return [
      { name: path, default: isMap(value) || isSeq(value) ? value.toJSON() : scalar(value), description },
    ]
  })
}

interface ObjectSchema {
  readonly type: 'object'
  readonly additionalProperties: boolean
  readonly properties: Readonly<Record<string, object>>
  readonly required?: readonly string[]
}

function schemaOfMap(map: YAMLMap): ObjectSchema {
  const pairs = pairsOf(map)
  const properties = pairs.map(({ name, value, description }) => [
    name,
    { description, ...schemaOf(value, description) },
  ])
  // Templates read parts of these: an object that was set to null would fail there, without its path.
  const required = pairs.filter(({ value }) => isMap(value) && isDescribed(value)).map(({ name }) => name)
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
  }
}

/** The schema of a value: the type of its default, narrowed or widened by the words of its comment. */
function schemaOf(value: unknown, description: string): object {
  if (isMap(value) && isDescribed(value)) return schemaOfMap(value)
  // Kubernetes takes no other values for labels and annotations, and no file has them.
  const isOfTexts = /labels|annotations|by file name/i.test(description)
  if (isMap(value)) return { type: 'object', ...(isOfTexts && { additionalProperties: { type: 'string' } }) }
  if (isSeq(value)) return { type: 'array' }
  const [, choices] = /One of: ([^.]+)/.exec(description) ?? []
  if (choices !== undefined) {
    const named = [...choices.matchAll(/`([^`]+)`/g)].map(([, choice]) => choice)
    return { enum: scalar(value) === '' ? ['', ...named] : named }
  }
  if (description.includes('(number or text)')) return { type: ['integer', 'string'] }
  if (typeof scalar(value) === 'number') return { type: 'integer', minimum: 0 }
  return { type: typeof scalar(value) }
}

/** Whether the keys of an object are known: they have comments. */
function isDescribed(map: YAMLMap): boolean {
  return pairsOf(map).some(({ description }) => description !== '')
}

function pairsOf(map: YAMLMap) {
  return map.items.map((pair: Pair, index) => {
    const { key, value } = pair
    if (!isScalar(key)) throw new Error('values.yaml: a key must be text')
    // The comment before the first key of an object belongs to the object in the parser's view.
    const comment = key.commentBefore ?? (index === 0 ? map.commentBefore : undefined) ?? ''
    const description = comment.split('\n\n').at(-1) ?? ''
    return { name: String(key.value), value, description: description.replaceAll(/\n /g, ' ').trim() }
  })
}

function scalar(value: unknown): unknown {
  return isScalar(value) ? value.value : value
}

function mapIn(text: string): YAMLMap {
  const { contents } = parseDocument(text)
  if (!isMap(contents)) throw new Error('values.yaml must be an object')
  return contents
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, text] of Object.entries(renderChart())) {
    if (!process.argv.includes('--check')) writeFileSync(new URL(path, ROOT), text)
    else if (read(path) !== text) {
      console.error(`${path} is not current: npm run reference`)
      process.exitCode = 1
    }
  }
}
