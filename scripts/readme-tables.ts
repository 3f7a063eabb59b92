import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { METRICS } from '../src/admin/metrics.ts'
import { LIMIT_NAMES, MODULE_LIMITS } from '../src/module/limits.ts'
import { flags } from '../src/options/flags.ts'
import { routeSchema, serverSchema } from '../src/options/options-schema.ts'
import { PROCESS_STATE } from '../src/platform/process-state.ts'
import { renderRooms } from './rooms.ts'

/* npm run readme: writes the tables of pages from what they describe: options, metrics, limits, folders. */

const ARCHITECTURE = new URL('../docs/explain/architecture.md', import.meta.url)
const CONTRIBUTING = new URL('../CONTRIBUTING.md', import.meta.url)
const README = new URL('../README.md', import.meta.url)
const LIMITS = new URL('../docs/module-limits.md', import.meta.url)
const OPERATIONS = new URL('../docs/operations.md', import.meta.url)

/** A README with its tables as the schema has them. */
export function renderReadme(readme: string): string {
  const tables = {
    flags: table(
      'flag',
      'what it does',
      flags.map((flag) => row(`--${flag.name}`, flag)),
    ),
    options: table('option', 'what it is', [...rows('', serverSchema), ...rows('routes[].', routeSchema)]),
  }
  return withTables(readme, tables)
}

/** The page for contributors with its table as the folders are. */
export function renderContributing(page: string): string {
  return withTables(page, { rooms: `${renderRooms()}\n` })
}

/** The page about the architecture with its table as the state of a process is. */
export function renderArchitecture(page: string): string {
  const rows = Object.entries(PROCESS_STATE).map(([name, why]) => `| \`${name}\` | ${why} |`)
  const table = ['| what | why |', '| --- | --- |', ...rows].join('\n')
  return withTables(page, { 'process-state': `${table}\n` })
}

/** The page of operations with its table as the metrics are. */
export function renderOperations(page: string): string {
  const rows = METRICS.map(({ name, type, labels, help }) => {
    const labelled = labels.length === 0 ? '' : labels.map((label) => `\`${label}\``).join(', ')
    return `| \`${name}\` | ${type} | ${labelled} | ${help}. |`
  })
  const metrics = ['| metric | type | labels | what it is |', '| --- | --- | --- | --- |', ...rows].join('\n')
  return withTables(page, { metrics: `${metrics}\n` })
}

/** The page of what a module may ask of the compiler, with its table as the limits are. */
export function renderModuleLimits(page: string): string {
  const rows = LIMIT_NAMES.map((name) => {
    const { what, limit, seen } = MODULE_LIMITS[name]
    return `| \`${name}\` | ${what} | ${limit.toLocaleString('en')} | ${seen.toLocaleString('en')} |`
  })
  const table = [
    '| name | what is counted | limit | most seen |',
    '| --- | --- | ---: | ---: |',
    ...rows,
  ].join('\n')
  return withTables(page, { 'module-limits': `${table}\n` })
}

function withTables(page: string, tables: Readonly<Record<string, string>>): string {
  return Object.entries(tables).reduce(
    (text, [name, lines]) =>
      text.replace(new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`), `$1${lines}$2`),
    page,
  )
}

interface Described {
  readonly description?: string
  readonly default?: unknown
}

function table(name: string, what: string, rows: readonly string[]): string {
  return `${[`| ${name} | ${what} | default |`, '| --- | --- | --- |', ...rows].join('\n')}\n`
}

function rows(prefix: string, { properties }: { properties: object }): string[] {
  return Object.entries<Described>(properties as Record<string, Described>).map(([name, schema]) =>
    row(prefix + name, schema),
  )
}

function row(name: string, { description, default: value }: Described): string {
  return `| \`${name}\` | ${description} | ${value === undefined ? '' : `\`${JSON.stringify(value)}\``} |`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(ARCHITECTURE, renderArchitecture(readFileSync(ARCHITECTURE, 'utf8')))
  writeFileSync(CONTRIBUTING, renderContributing(readFileSync(CONTRIBUTING, 'utf8')))
  writeFileSync(README, renderReadme(readFileSync(README, 'utf8')))
  writeFileSync(LIMITS, renderModuleLimits(readFileSync(LIMITS, 'utf8')))
  writeFileSync(OPERATIONS, renderOperations(readFileSync(OPERATIONS, 'utf8')))
}
