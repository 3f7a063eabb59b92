import { readFileSync, writeFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { METRICS, type Metric } from '../src/admin/metric-list.ts'
import { COMMANDS } from '../src/cli/cli.ts'
import { OTHER_FLAGS, renderUsage } from '../src/cli/help.ts'
import '../src/errors/errors.ts'
import { type FailureEntry, failureEntries, statusOf } from '../src/errors/failure.ts'
import { LIMIT_NAMES, MODULE_LIMITS } from '../src/module/limits.ts'
import { Secrets } from '../src/observe/log/secrets.ts'
import type { OptionScope } from '../src/options/facts.ts'
import { type Flag, flags, variables } from '../src/options/flags.ts'
import { loadSchema, routeSchema, serverSchema } from '../src/options/options-schema.ts'
import type { OptionFacts } from '../src/options/schema/facts.ts'
import { PROCESS_STATE } from '../src/platform/process-state.ts'
import { renderRooms } from './rooms.ts'
import { withTables } from './tables.ts'

/* npm run reference: writes docs/reference, and the tables of other pages, from the code that they describe. */

const SOURCE_PAGE = new URL('../docs/contribute/source.md', import.meta.url)
const CONTRIBUTING = new URL('../CONTRIBUTING.md', import.meta.url)
const REFERENCE = new URL('../docs/reference/', import.meta.url)
const LIMITS = new URL('../docs/protect/module-limits.md', import.meta.url)
const PROMISES = new URL('../docs/contribute/promises.md', import.meta.url)
const SECURITY = new URL('../docs/protect/security.md', import.meta.url)
const OPERATIONS = new URL('../docs/operate/metrics-and-logs.md', import.meta.url)

/** The page for contributors with its table as the folders are. */
export function renderContributing(page: string): string {
  return withTables(page, { rooms: `${renderRooms()}\n` })
}

/** The page about the source with its table as the state of a process is. */
export function renderSource(page: string): string {
  const rows = Object.entries(PROCESS_STATE).map(([name, why]) => `| \`${name}\` | ${why} |`)
  const table = ['| what | why |', '| --- | --- |', ...rows].join('\n')
  return withTables(page, { 'process-state': `${table}\n` })
}

/** Labels that all metrics of routes have. */
const ROUTE_LABELS: readonly string[] = ['route', 'plugin', 'digest']

/** The page of operations with its tables as the metrics are. */
export function renderOperations(page: string): string {
  const isOfRoute = ({ labels }: Metric) => labels.includes('route')
  return withTables(page, {
    'route-metrics': renderMetrics(METRICS.filter(isOfRoute), ROUTE_LABELS),
    'server-metrics': renderMetrics(METRICS.filter((metric) => !isOfRoute(metric))),
  })
}

/** @param known - Labels that the page names. */
function renderMetrics(metrics: readonly Metric[], known: readonly string[] = []): string {
  const rows = metrics.map(({ name, type, labels, help }) => {
    const others = labels.filter((label) => !known.includes(label)).map((label) => `\`${label}\``)
    return `| \`${name}\` | ${type} | ${others.join(', ')} | ${help}. |`
  })
  return ['| metric | type | labels | meaning |', '| --- | --- | --- | --- |', ...rows, ''].join('\n')
}

/**
 * The page about security with its lists of claims.
 *
 * @param promises - The page with a table per section: claims, and the tests of each.
 */
export function renderSecurity(page: string, promises: string): string {
  const sections = promises.split('\n## ').slice(1)
  const lists = sections.map((section) => {
    const [heading = '', ...lines] = section.split('\n')
    const claims = lines.flatMap((line) => /^\| (.+) \| `test\//.exec(line)?.slice(1) ?? [])
    return [
      heading.toLowerCase().replaceAll(' ', '-'),
      `\n${claims.map((claim) => `- ${claim}\n`).join('')}\n`,
    ]
  })
  return withTables(page, Object.fromEntries(lists))
}

/** The page of the module limits, with a generated table. */
export function renderModuleLimits(page: string): string {
  const rows = LIMIT_NAMES.map((name) => {
    const { what, limit, seen } = MODULE_LIMITS[name]
    return `| \`${name}\` | ${what} | ${limit.toLocaleString('en')} | ${seen.toLocaleString('en')} |`
  })
  const table = ['| name | counted | limit | most found |', '| --- | --- | ---: | ---: |', ...rows].join('\n')
  return withTables(page, { 'module-limits': `${table}\n` })
}

const GENERATED = '<!-- Written by `npm run reference`. -->'

/** The pages of docs/reference, by name. */
export async function renderReference(): Promise<Readonly<Record<string, string>>> {
  return {
    'options.md': renderOptions(),
    'errors.md': renderErrors(),
    'command-line.md': await renderCommands(),
    'http.md': renderHttp(),
  }
}

interface OptionNode {
  readonly facts?: OptionFacts
  readonly description?: string
  readonly default?: unknown
  readonly type?: string
  readonly enum?: readonly string[]
  readonly threadCount?: boolean
  readonly anyOf?: readonly OptionNode[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, OptionNode>>
}

const SCOPES = [
  [
    'Routes',
    'route',
    routeSchema,
    'Options of a route. A config file can set them in `defaults`, for a plug-in and for a route.',
  ],
  [
    'Loading plug-ins',
    'load',
    loadSchema,
    'Options of the process. [Module limits](../protect/module-limits.md) lists the names of `moduleLimits`.',
  ],
  ['Server', 'server', serverSchema, 'Options of the process.'],
] as const

function renderOptions(): string {
  const byOption = new Map<string, Flag>()
  for (const flag of variables) byOption.set(`${flag.scope} ${flag.option}`, flag)
  const parts = SCOPES.map(([title, scope, schema, about]) => {
    const rows = optionsOf('', schema as OptionNode).map(([option, described]) => {
      const flag = byOption.get(`${scope} ${option}`)
      const isFlag = flag !== undefined && flags.includes(flag)
      const value = described.default === undefined ? '' : code(JSON.stringify(described.default))
      const cells = [
        `\`${option}\``,
        isFlag ? code(isScalar(described) ? `--${flag.name}` : renderUsage(flag)) : '',
        flag ? code(flag.variable) : '',
        typeOf(described),
        value,
        option.includes('.') ? '' : appliedBy(scope, described),
        option.includes('.') ? '' : othersWhoSet(described),
        cell(described.description ?? ''),
      ]
      return `| ${cells.join(' | ')} |`
    })
    const head =
      '| option | flag | variable | type | default | change | also set by | |\n| --- | --- | --- | --- | --- | --- | --- | --- |'
    return `## ${title}\n\n${about}\n\n${head}\n${rows.join('\n')}`
  })
  return `# Options

${GENERATED}

All options, with their flags and environment variables. Flags win over variables, which win over a
[config file](../start/config-file.md). Programs that [embed](../serve/embedding.md) wasm-serve use the same names.
Sizes and pages accept units (\`64KiB\`), and so do times (\`500ms\`, \`5s\`, \`2m\`).

A change takes effect by a *reload*, which keeps the memory of instances; by a reload that opens new *instances*; or only by a *restart*.
Some options can also be set by the shared configuration of a *fleet*, or by both that and the *admin* API.

${parts.join('\n\n')}
`
}

/** Whether a reader knows how its text looks. */
function isScalar({ type, anyOf }: OptionNode): boolean {
  return !anyOf && type !== 'object' && type !== 'array'
}

function appliedBy(scope: OptionScope, { facts }: OptionNode): string {
  const { reach = scope === 'route' ? 'instance' : 'process' } = facts ?? {}
  if (reach === 'process') return 'restart'
  return scope === 'route' && !['document', 'answer'].includes(reach) ? 'instances' : 'reload'
}

function othersWhoSet({ facts: { edit, owner } = {} }: OptionNode): string {
  if (edit) return 'admin'
  return owner ?? ''
}

/** Options of a schema; those of an object such as `tls` by their paths. */
function optionsOf(prefix: string, { properties = {} }: OptionNode): [string, OptionNode][] {
  return Object.entries(properties).flatMap(([name, described]): [string, OptionNode][] => {
    if (described.description === undefined) return []
    const path = prefix + name
    return described.type === 'object' && described.properties
      ? [[path, described], ...optionsOf(`${path}.`, described)]
      : [[path, described]]
  })
}

function typeOf({ type, enum: values, threadCount, anyOf, const: only }: OptionNode): string {
  if (threadCount) return 'integer or `auto`'
  if (only !== undefined) return code(JSON.stringify(only))
  if (values) return values.map((value) => code(value)).join(', ')
  if (anyOf) return [...new Set(anyOf.map(typeOf))].filter((text) => text !== '').join(' or ')
  return type ?? ''
}

function code(text: string): string {
  return `\`${cell(text)}\``
}

/** Text for a cell of a table. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

/** Where failures appear that are no responses. */
const SITES: readonly (readonly [title: string, how: string, isHere: (entry: FailureEntry) => boolean])[] = [
  [
    'Last line of the log',
    'Written to standard error before the process exits.',
    ({ site }) => site === 'log',
  ],
  [
    'Mistakes in commands and plug-ins',
    'A command prints the message and the code to standard error, and exits with 2.',
    ({ site, isMistake }) => site === 'command' && isMistake === true,
  ],
  [
    'Failures of commands',
    'A command prints the message and the code to standard error, and exits with 1.',
    ({ site, isMistake }) => site === 'command' && isMistake !== true,
  ],
  ['In a guest', 'The guest gets the code, or a reason that begins with it.', ({ site }) => site === 'guest'],
  ['`wasm-serve/extism`', 'Thrown by plug-ins of `wasm-serve/extism`.', ({ site }) => site === 'extism'],
]

const byCode = (a: FailureEntry, b: FailureEntry) => (a.code < b.code ? -1 : 1)

function renderErrors(): string {
  const render = ({ code, cause, remedy }: FailureEntry) => `### ${code}\n\n${cause}\n\n${remedy}`
  const statuses = new Map<number, FailureEntry[]>()
  const failed = failureEntries().filter(({ site }) => site === undefined)
  for (const entry of failed.sort((a, b) => statusOf(a) - statusOf(b) || byCode(a, b))) {
    const status = statusOf(entry)
    statuses.set(status, [...(statuses.get(status) ?? []), entry])
  }
  const responses = [...statuses].map(([status, entries]) => {
    const name = STATUS_CODES[status] ?? ''
    return `## ${`${status} ${name}`.trimEnd()}\n\n${entries.map(render).join('\n\n')}`
  })
  const others = SITES.map(([title, how, isHere]) => {
    const entries = failureEntries().filter(isHere).sort(byCode).map(render)
    return `## ${title}\n\n${how}\n\n${entries.join('\n\n')}`
  })
  return `# Errors

${GENERATED}

Each failure has a code that never changes, below with its cause and its remedy. It is the field \`code\` of
[problem details](http.md#problem-details), of log lines, and of errors of the library.

${responses.join('\n\n')}

${others.join('\n\n')}
`
}

async function renderCommands(): Promise<string> {
  const pages: string[] = []
  for (const name of Object.keys(COMMANDS).filter((name) => name !== 'help')) {
    const text = await helpOf([name, '--help'])
    pages.push(`## \`${name}\`\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\``)
  }
  const others = OTHER_FLAGS.map(([name, description]) => `| ${code(name)} | ${cell(description)} |`)
  return `# Command line

${GENERATED}

The \`--help\` of each command. [Commands](../start/commands.md) has examples.

| exit code | meaning |
| ---: | --- |
| 0 | Success, or the server stopped after SIGTERM or SIGINT. |
| 1 | Failure: an error of the guest, a failed check, an address in use, a download. |
| 2 | Mistake: the command line, a variable, a file or a plug-in is wrong. |
| 75 | Four threads cannot be terminated (\`WASM_SERVE_PROCESS_STUCK\`): restart the process. |
| 137, 133 | A guest blocked the event loop (\`WASM_SERVE_GUEST_STALL\`): restart the process. |

${pages.join('\n\n')}

## Flags of \`serve\`

\`wasm-serve help flags\` lists the flags, which [Options](options.md) describes. These flags are not options:

| flag | |
| --- | --- |
${others.join('\n')}
`
}

function renderHttp(): string {
  return `# HTTP responses

${GENERATED}

How results and failures become HTTP responses. [HTTP](../serve/http.md) and [contracts](../write/contracts.md) have the details.

## Responses of guests

| guest | status | body |
| --- | ---: | --- |
| returns an output | 200, or the status that the contract reads from it | the output |
| reports an error | \`errorStatus\` (409) | its message |
| fails otherwise | see [errors](errors.md) | problem details |

Each response has \`x-request-id\`: that of the request if it is printable and has at most 128 characters, otherwise a new one.

## Problem details

All other failures are \`application/problem+json\` (RFC 9457):

| field | meaning |
| --- | --- |
| \`type\` | \`about:blank\` |
| \`title\` | The name of the status |
| \`status\` | The status |
| \`detail\` | The failure and its limit |
| \`code\` | Its [code](errors.md), which never changes |
| \`requestId\` | The same as in \`x-request-id\` and in the log |
`
}

/** The output of a command. */
async function helpOf([name = '', ...words]: readonly string[]): Promise<string> {
  let text = ''
  const write = (more: string) => {
    text += more
  }
  const command = await COMMANDS[name]?.load()
  await command?.run(words, {
    environment: {},
    out: { write, colours: false },
    isOutTerminal: false,
    writeBytes: () => undefined,
    writeError: write,
    sendBytes: async () => true,
    readChunks: () => Readable.from([]),
    readInput: async () => new Uint8Array(),
    readLines: () => Readable.from([]),
    program: [process.execPath],
    logTerminal: undefined,
    logLines: undefined,
    secrets: new Secrets(),
    commands: COMMANDS,
    keyboard: undefined,
    signals: { holdReload: () => () => false, atExit: () => undefined, endWith: () => undefined },
  })
  return text
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const write = (page: URL, render: (text: string) => string) =>
    writeFileSync(page, render(readFileSync(page, 'utf8')))
  write(SOURCE_PAGE, renderSource)
  write(CONTRIBUTING, renderContributing)
  write(LIMITS, renderModuleLimits)
  write(OPERATIONS, renderOperations)
  write(SECURITY, (page) => renderSecurity(page, readFileSync(PROMISES, 'utf8')))
  for (const [name, text] of Object.entries(await renderReference()))
    writeFileSync(new URL(name, REFERENCE), text)
}
