import { type Flag, flags } from '../config/flags.ts'

const USAGE = `wasm-serve <plugin.wasm> [function] [port] [flags]

Serves an Extism plug-in over HTTP: POST a body, get the function's output.

Examples:
  wasm-serve hello.wasm                       the only function, at /, on port 8080
  wasm-serve count.wasm count_vowels 9000     a function by name, on port 9000
  wasm-serve hello.wasm --config greeting=Hi  a value for the guest's config

Flags:
`

/** Renders the help page. */
export function renderHelp(): string {
  const rows = flags.map((flag) => [
    `--${flag.name}${placeholder(flag)}`,
    flag.description + renderDefault(flag),
  ])
  rows.push(
    ['--set-config <JSON>', 'Several values for --config, as a JSON object.'],
    ['-m, --manifest <path>', 'The plug-in: an Extism manifest.'],
    ['-h, --help', 'Show this page.'],
    ['-v, --version', 'Show the version.'],
  )
  const width = Math.max(...rows.map(([name = '']) => name.length))
  const lines = rows.map(([name = '', description]) => `  ${name.padEnd(width)}  ${description}`)
  return `${USAGE}${lines.join('\n')}\n\nEvery flag can be set by a variable: --body-limit by WASM_SERVE_BODY_LIMIT, --config by a JSON object.\n`
}

const PLACEHOLDERS: Readonly<Record<Flag['kind'], string>> = {
  boolean: '',
  integer: ' <n>',
  size: ' <size>',
  pages: ' <pages>',
  threads: ' <n|auto>',
  string: ' <text>',
  list: ' <a,b>',
  pairs: ' <K=V>',
  paths: ' <host[:guest]>',
  links: ' <[name=]source>',
  hosts: ' <host>',
}

function placeholder({ kind, name, values, default: value }: Flag): string {
  if (values.length === 2) return ` <${values.join('|')}>`
  return kind === 'boolean' && value === true ? `, --no-${name}` : PLACEHOLDERS[kind]
}

function renderDefault({ default: value }: Flag): string {
  return value === undefined || typeof value === 'object' || value === false ? '' : ` [${value}]`
}
