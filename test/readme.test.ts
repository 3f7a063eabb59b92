import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { flags } from '../src/config/flags.ts'
import { routeSchema, serverSchema } from '../src/config/options-schema.ts'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const readme = read('README.md')

/** What stands between two markers. */
function section(name: string): string {
  return new RegExp(`<!-- ${name} -->\n([^]*?)<!-- /${name} -->`).exec(readme)?.[1] ?? ''
}

interface OptionSchema {
  readonly description?: string
  readonly default?: unknown
}

function renderDefault(value: unknown): string {
  return value === undefined ? '' : `\`${JSON.stringify(value)}\``
}

function optionRows(prefix: string, schema: { properties: object }): string[] {
  const options = Object.entries<OptionSchema>(schema.properties as Record<string, OptionSchema>)
  return options.map(
    ([name, { description, default: value }]) =>
      `| \`${prefix}${name}\` | ${description} | ${renderDefault(value)} |`,
  )
}

test('the table of flags is that of the schema', () => {
  const rows = flags.map(
    ({ name, description, default: value }) => `| \`--${name}\` | ${description} | ${renderDefault(value)} |`,
  )
  expect(section('flags')).toBe(
    `${['| flag | what it does | default |', '| --- | --- | --- |', ...rows].join('\n')}\n`,
  )
})

test('the table of options is that of the schema', () => {
  const rows = [...optionRows('', serverSchema), ...optionRows('routes[].', routeSchema)]
  expect(section('options')).toBe(
    `${['| option | what it is | default |', '| --- | --- | --- |', ...rows].join('\n')}\n`,
  )
})

test('every error code has a row, and every row an error', () => {
  const codes = (text: string) => [...new Set(text.match(/WASM_SERVE_\w+_\w+/g))].sort()
  const rows = readme
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .join('\n')
  const inTables = codes(rows).filter((code) => !flags.some(({ variable }) => variable === code))
  expect(inTables).toEqual(codes(read('src/errors.ts')))
})
