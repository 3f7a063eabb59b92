import { readFileSync, writeFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { METRICS } from '../src/admin/metric-list.ts'
import { COMMANDS } from '../src/cli/cli.ts'
import '../src/errors/errors.ts'
import { type FailureEntry, type FailureSite, failureEntries, statusOf } from '../src/errors/failure.ts'
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

const ARCHITECTURE = new URL('../docs/explain/architecture.md', import.meta.url)
const CONTRIBUTING = new URL('../CONTRIBUTING.md', import.meta.url)
const REFERENCE = new URL('../docs/reference/', import.meta.url)
const LIMITS = new URL('../docs/operate/module-limits.md', import.meta.url)
const OPERATIONS = new URL('../docs/operate/metrics-and-logs.md', import.meta.url)

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
  const metrics = ['| metric | type | labels | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n')
  return withTables(page, { metrics: `${metrics}\n` })
}

/** The page of the module limits, with a generated table. */
export function renderModuleLimits(page: string): string {
  const rows = LIMIT_NAMES.map((name) => {
    const { what, limit, seen } = MODULE_LIMITS[name]
    return `| \`${name}\` | ${what} | ${limit.toLocaleString('en')} | ${seen.toLocaleString('en')} |`
  })
  const table = ['| name | counted | limit | maximum seen |', '| --- | --- | ---: | ---: |', ...rows].join(
    '\n',
  )
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
  readonly unit?: string
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
    'Options of a route. In a config file they can stand in `defaults`, in a plug-in and in a route.',
  ],
  ['Loading plug-ins', 'load', loadSchema, 'Options of the process: sources of plug-ins, limits on modules.'],
  [
    'Server',
    'server',
    serverSchema,
    'Options of the process: sockets, limits, logs, the store, the admin listener.',
  ],
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
        isFlag ? code(`--${flag.name}`) : '',
        flag ? code(flag.variable) : '',
        typeOf(described),
        described.unit ?? '',
        value,
        option.includes('.') ? '' : appliedBy(scope, described),
        option.includes('.') ? '' : othersWhoSet(described),
        cell(described.description ?? ''),
      ]
      return `| ${cells.join(' | ')} |`
    })
    const head =
      '| option | flag | variable | type | unit | default | change | also set by | |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
    return `## ${title}\n\n${about}\n\n${head}\n${rows.join('\n')}`
  })
  return `# Options

${GENERATED}

Each option, with its flag and its variable of the environment where it has one. Flags win over variables, and these over a
[config file](../guide/config-file.md). Sizes in bytes accept units (\`64KiB\`); pages are 64 KiB each and accept units, too;
times are in milliseconds, or have a unit (\`500ms\`, \`5s\`, \`2m\`). Options of the program that embeds wasm-serve have the same names.

A change of an option takes effect by a *reload*, which keeps instances with their memory; by *new instances*, which a reload opens; or by a *restart*:
until then, a reload warns. Besides the configuration of a server, the *admin API* (or its state folder) or the shared configuration of a *fleet* may set some.

${parts.join('\n\n')}
`
}

function appliedBy(scope: OptionScope, { facts }: OptionNode): string {
  const { reach = scope === 'route' ? 'instance' : 'process' } = facts ?? {}
  if (reach === 'process') return 'restart'
  return scope === 'route' && !['document', 'answer'].includes(reach) ? 'new instances' : 'reload'
}

function othersWhoSet({ facts: { edit, owner } = {} }: OptionNode): string {
  if (edit) return 'admin API, fleet'
  return owner ?? ''
}

/** Options of a schema; those of an object such as `tls` by their paths. */
function optionsOf(prefix: string, { properties = {} }: OptionNode): [string, OptionNode][] {
  return Object.entries(properties).flatMap(([name, described]): [string, OptionNode][] => {
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

const SITES: Readonly<Record<FailureSite, readonly [title: string, how: string]>> = {
  log: ['Last lines of a log', 'Written to standard error before the process ends.'],
  command: [
    'Commands and loading',
    'The command prints the message with its code to standard error, and exits with 1, or with 2 where this page says so: then the same command fails again. A program gets an error with this `code`.',
  ],
  guest: ['In a guest', 'What a guest finds as a code, or at the beginning of a reason.'],
  extism: ['`wasm-serve/extism`', 'Thrown by a plug-in of `wasm-serve/extism`.'],
}

/** The failures that appear at a site, or as answers, by status and code. */
function failuresAt(site?: FailureSite): FailureEntry[] {
  return failureEntries()
    .filter((entry) => entry.site === site)
    .sort((a, b) => (site ? 0 : statusOf(a) - statusOf(b)) || (a.code < b.code ? -1 : 1))
}

function renderErrors(): string {
  const render = (entry: FailureEntry) => {
    const status = statusOf(entry)
    const name = STATUS_CODES[status] ? ` (${STATUS_CODES[status]})` : ''
    const how = entry.site ? (entry.isMistake ? 'Exit code 2. ' : '') : `Status ${status}${name}. `
    return `### ${entry.code}\n\n${how}${entry.cause}\n\n*Remedy:* ${entry.remedy}`
  }
  const others = Object.entries(SITES).map(([site, [title, how]]) => {
    const entries = failuresAt(site as FailureSite).map(render)
    return `## ${title}\n\n${how}\n\n${entries.join('\n\n')}`
  })
  return `# Errors

${GENERATED}

Each code stands for one failure and does not change. Answers carry it as \`code\` of their
[problem details](http.md#problem-details), log lines as \`code\`, and errors of the library as \`code\`.

## Answers of a server

${failuresAt().map(render).join('\n\n')}

${others.join('\n\n')}
`
}

async function renderCommands(): Promise<string> {
  const pages: string[] = []
  for (const [name, { summary }] of Object.entries(COMMANDS)) {
    const text = await helpOf(name === 'help' ? ['help', 'flags'] : [name, '--help'])
    const title = name === 'help' ? '`help flags`' : `\`${name}\``
    pages.push(`## ${title}\n\n${summary}\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\``)
  }
  return `# Command line

${GENERATED}

Each command as its \`--help\` shows it. [Commands](../guide/commands.md) has examples.

| exit code | meaning |
| ---: | --- |
| 0 | The command is done; the server ended after SIGTERM or SIGINT. |
| 1 | It failed: a guest's error, a check, an address in use, a download. |
| 2 | The command line, a variable, a file or a plug-in is wrong. |
| 75 | Four threads cannot be ended (\`WASM_SERVE_PROCESS_STUCK\`): start the process again. |
| 137, 133 | A guest blocked the event loop (\`WASM_SERVE_GUEST_STALL\`): start the process again. |

${pages.join('\n\n')}
`
}

function renderHttp(): string {
  const statuses = new Map<number, string[]>()
  for (const entry of failuresAt()) {
    const status = statusOf(entry)
    statuses.set(status, [...(statuses.get(status) ?? []), entry.code])
  }
  const rows = [...statuses].map(([status, names]) => {
    const links = names.map((name) => `[\`${name}\`](errors.md#${name.toLowerCase()})`)
    return `| ${status} | ${links.join(', ')} |`
  })
  return `# HTTP

${GENERATED}

A route answers POST unless its option \`method\` names others. [HTTP in the guide](../guide/http.md) and
[contracts](../guide/contracts.md) have the details.

## Answers of guests

| guest | status | body |
| --- | ---: | --- |
| returns an output | 200, or what the contract reads from it | the output |
| reports an error | \`errorStatus\` (409) | its message |
| fails otherwise | see below | problem details |

Each answer has \`x-request-id\`: the client's, if it is printable and at most 128 characters long, else a new one.

## Problem details

Failures that the guest did not report are \`application/problem+json\` (RFC 9457):

| field | meaning |
| --- | --- |
| \`type\` | \`about:blank\` |
| \`title\` | The name of the status |
| \`status\` | The status |
| \`detail\` | What failed, and the limit that it met |
| \`code\` | One of the [codes](errors.md), which do not change |
| \`requestId\` | As in \`x-request-id\` and in the log |

## Statuses

| status | codes |
| ---: | --- |
${rows.join('\n')}
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
  write(ARCHITECTURE, renderArchitecture)
  write(CONTRIBUTING, renderContributing)
  write(LIMITS, renderModuleLimits)
  write(OPERATIONS, renderOperations)
  for (const [name, text] of Object.entries(await renderReference()))
    writeFileSync(new URL(name, REFERENCE), text)
}
