import { UsageError } from '../errors/errors.ts'
import { type Flag, flags } from '../options/flags.ts'
import { didYouMean } from '../platform/text.ts'
import { type Command, type Host, renderRows } from './command.ts'

/** Shows the overview or the list of flags. Each command renders its own page. */
export const help: Command = {
  async run(argv, { out, commands }) {
    const [topic = ''] = argv.filter((word) => word !== '--help' && word !== '-h')
    if (topic === '') return out.write(renderHelp(commands))
    if (topic === 'flags') return out.write(renderFlags())
    const topics = [...Object.keys(commands), 'flags']
    throw new UsageError(`there is no command "${topic}"${didYouMean(topic, topics)}`)
  },
}

/** Renders the overview: one screen of 80 x 24. */
export function renderHelp(commands: Host['commands']): string {
  const others = Object.entries(commands).filter(([name]) => name !== 'serve')
  return `wasm-serve <plugin.wasm | script | folder> [function] [port] [flags]
Serves Extism plug-ins over HTTP, at --host and --port [127.0.0.1, 8080].
  wasm-serve count.wasm count_vowels 9000  a function by name, on port 9000
  wasm-serve                               what wasm-serve.yaml (-c) lists

Commands:
${renderRows(others.map(([name, { summary }]) => [name, summary])).join('\n')}
`
}

/** Renders the list of all flags of `serve`. */
function renderFlags(): string {
  const groups = GROUPS.map(({ title, scope, more }) => {
    const rows = flags.filter((flag) => flag.scope === scope).map(renderHelpFlag)
    return [`${title}:`, ...renderRows([...rows, ...more])].join('\n')
  })
  return `${groups.join('\n\n')}\n\nEach flag has a variable: WASM_SERVE_BODY_LIMIT sets --body-limit.\nThe variable of a repeated flag such as --config is a JSON object.\n`
}

type Row = readonly [name: string, description: string]

const GROUPS: readonly { title: string; scope: Flag['scope']; more: readonly Row[] }[] = [
  {
    title: 'The plug-in and its route',
    scope: 'route',
    more: [['--set-config <JSON>', 'Several values for --config, as a JSON object.']],
  },
  {
    title: 'Where the plug-in comes from',
    scope: 'load',
    more: [['-m, --manifest <path>', 'The plug-in: an Extism manifest.']],
  },
  {
    title: 'The server',
    scope: 'server',
    more: [
      ['-c, --config-file <path>', 'Config file (YAML or JSON). Default: found in the working folder.'],
      ['--print-config', 'Show the effective configuration with the source of each value.'],
      ['-h, --help', 'Show the overview.'],
      ['-v, --version', 'Show the version.'],
    ],
  },
]

/** The flags of `serve` that are no options. */
export const OTHER_FLAGS: readonly Row[] = GROUPS.flatMap(({ more }) => more)

function renderHelpFlag(flag: Flag): Row {
  return [renderUsage(flag), flag.description + renderDefault(flag)]
}

/** A flag with a placeholder of its value. */
export function renderUsage(flag: Flag): string {
  return `--${flag.name}${placeholder(flag)}`
}

const PLACEHOLDERS: Readonly<Record<Flag['kind'], string>> = {
  boolean: '',
  integer: ' <n>',
  size: ' <size>',
  pages: ' <pages>',
  time: ' <time>',
  threads: ' <n|auto>',
  string: ' <text>',
  list: ' <a,b>',
  pairs: ' <K=V>',
  paths: ' <host[:guest]>',
  links: ' <[name=]source>',
  numbers: ' <name=n>',
  keys: ' <prefix=key>',
  registries: ' <host=insecure|ca>',
  hosts: ' <host>',
}

function placeholder({ kind, name, values, default: value }: Flag): string {
  if (kind === 'hosts' && name.startsWith('jwt-')) return ' <text>'
  if (values.length === 2) return ` <${values.join('|')}>`
  return kind === 'boolean' && value === true ? `, --no-${name}` : PLACEHOLDERS[kind]
}

function renderDefault({ default: value }: Flag): string {
  return value === undefined || typeof value === 'object' || value === false ? '' : ` [${value}]`
}
