import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isMap, isScalar, isSeq, type Pair, parseDocument, type YAMLMap } from 'yaml'
import { mapShapes, orNull, SHAPES } from './chart-shapes.ts'
import { chartConfigProperties } from './config-schema.ts'

/*
 * Makes the generated files of the Helm chart: values.schema.json, from values.yaml, the shapes of Kubernetes and the schema of
 * config files; the defaults for values that are missing; README.md; copies of the licence, the alert rules and the dashboard,
 * which a chart cannot read outside its folder; and the versions in Chart.yaml and in the Compose file.
 *
 * npm run reference writes them; `tsx scripts/chart.ts --check` fails if one of them is not current.
 */

const ROOT = new URL('../', import.meta.url)
const CHART = 'deploy/helm/wasm-serve/'
const CLOUDS = 'docs/operate/clouds.md'
const COMPOSE = 'deploy/compose/compose.yaml'
const README = `${CHART}README.md`

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
    [`${CHART}files/defaults.json`]: `${JSON.stringify(defaultsOf(mapIn(values)), null, 1)}\n`,
    [`${CHART}LICENSE`]: read('LICENSE'),
    [`${CHART}files/alerts.yaml`]: read('deploy/prometheus/alerts.yaml'),
    [`${CHART}files/dashboard.json`]: read('deploy/grafana/dashboard.json'),
    [COMPOSE]: read(COMPOSE).replace(/(:-[^:}]+:)[^}]+/, `$1${version}`),
    [README]: withValues(read(README), values),
    [CLOUDS]: withExamples(read(CLOUDS)),
  }
}

/** Shows the files of values that a page names. */
function withExamples(page: string): string {
  return page.replace(/<!-- ci\/(\S+) -->\n[\s\S]*?<!-- \/ci\/\1 -->/g, (_, name) => {
    const file = read(`${CHART}ci/${name}-values.yaml`)
    return `<!-- ci/${name} -->\n\n\`\`\`yaml\n${file}\`\`\`\n\n<!-- /ci/${name} -->`
  })
}

function withValues(page: string, values: string): string {
  return page.replace(
    /(<!-- values -->\n)[\s\S]*?(<!-- \/values -->)/,
    (_, begin, end) => `${begin}${renderValues(values)}${end}`,
  )
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

function valuesSchema(values: string): object {
  const { additionalProperties, properties } = schemaOfMap('', mapIn(values))
  const unknown = Object.keys(SHAPES).filter((name) => !shaped.has(name))
  if (unknown.length > 0) throw new Error(`values.yaml has no ${unknown.join(', ')}`)
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart wasm-serve',
    type: 'object',
    additionalProperties,
    properties: {
      ...properties,
      config: { ...properties.config, properties: mapShapes(chartConfigProperties(), orNull) },
      // Any chart may put its own values there.
      global: { ...properties.global, additionalProperties: true },
    },
  }
}

/**
 * Values that templates use in place of missing ones. A missing object or list of Kubernetes is none, because null removes it.
 */
function defaultsOf(map: YAMLMap): object {
  const pairs = pairsOf(map).flatMap(({ name, value, description }) => {
    if (isMap(value) && isDescribed(value)) return [[name, defaultsOf(value)] as const]
    const isNone = isMap(value) || /\(as in |`null`/.test(description)
    return isNone ? [] : [[name, isSeq(value) ? value.toJSON() : scalar(value)] as const]
  })
  return Object.fromEntries(pairs)
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
  readonly type: readonly ['object', 'null']
  readonly additionalProperties: boolean
  readonly properties: Readonly<Record<string, object>>
}

/** Nothing is required, and everything may be null: a release keeps the values of an older chart with `--reuse-values`. */
function schemaOfMap(path: string, map: YAMLMap): ObjectSchema {
  const properties = pairsOf(map).map(({ name, value, description }) => [
    name,
    { description, ...schemaOf(path + name, value, description) },
  ])
  return {
    type: ['object', 'null'],
    additionalProperties: false,
    properties: Object.fromEntries(properties),
  }
}

/** The paths of shapes that were used. */
const shaped = new Set<string>()

/** The schema of a value: its shape, or the type of its default with the words of its comment. */
function schemaOf(path: string, value: unknown, description: string): object {
  if (isMap(value) && isDescribed(value)) return schemaOfMap(`${path}.`, value)
  const shape = SHAPES[path]
  if (shape) {
    shaped.add(path)
    return orNull(shape)
  }
  if (isMap(value) || isSeq(value)) throw new Error(`scripts/chart-shapes.ts: ${path} needs a shape`)
  const [, choices] = /One of: ([^.]+)/.exec(description) ?? []
  if (choices !== undefined) {
    const named = [...choices.matchAll(/`([^`]+)`/g)].map(([, choice]) => choice)
    return orNull({ enum: scalar(value) === '' ? ['', ...named] : named })
  }
  if (description.includes('(number or text)')) return orNull({ type: ['integer', 'string'] })
  if (typeof scalar(value) === 'number') return orNull({ type: 'integer', minimum: 0 })
  return orNull({ type: typeof scalar(value) })
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
