import fc from 'fast-check'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { checkGiven, wholeOf } from '../../src/options/check-given.ts'
import { readConfig } from '../../src/options/config.ts'
import { parseConfig } from '../../src/options/config-file.ts'
import { readJson } from '../../src/options/config-json.ts'
import { mergeConfig } from '../../src/options/merge.ts'
import { renderConfig } from '../../src/options/print-config.ts'
import { configOf, type Format, problemsIn } from '../support/config-text.ts'
import { runs } from '../support/runs.ts'

const formats: readonly Format[] = ['json', 'yaml', 'toml']

/** Text that is nearly one of the formats. */
const nearly = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...[
          '{',
          '}',
          '[',
          ']',
          ':',
          ',',
          '"',
          "'",
          '\n',
          '  ',
          '- ',
          '? ',
          '= ',
          '# ',
          '| ',
          '> ',
          '&a ',
          '*a ',
        ],
        ...[
          '---\n',
          '!!set ',
          '<<: ',
          '[[routes]]\n',
          '[a.b]\n',
          '"""',
          "'''",
          '\\',
          '\t',
          '\r\n',
          '\uFEFF',
          '\0',
        ],
        ...[
          'port: 1\n',
          '"port": 1',
          'port = 1\n',
          'routes',
          '__proto__',
          'constructor',
          '${',
          '}',
          '1e999',
          '~',
        ],
      ),
      fc.string({ maxLength: 5, unit: 'binary' }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''))

test.each(formats)('whatever text a %s file holds, it is read or refused with places', (format) => {
  fc.assert(
    fc.property(fc.oneof(nearly, fc.string({ unit: 'binary' })), (text) => {
      const lines = text.split('\n').length
      for (const problem of problemsIn(format, text)) {
        const [, line = '', column = ''] = /^(\d+):(\d+): /.exec(problem) ?? []
        expect([problem, Number(line) >= 1 && Number(line) <= lines + 1, Number(column) >= 1]).toEqual([
          problem,
          true,
          true,
        ])
      }
      expect(Object.keys(Object.prototype)).toEqual([])
    }),
    { numRuns: runs(500) },
  )
})

const KEYS_OF_OBJECTS = new Set(['__proto__', 'constructor', 'prototype'])
const name = fc
  .string({ maxLength: 8, unit: 'grapheme' })
  .filter((key) => !KEYS_OF_OBJECTS.has(key) && !key.includes('${'))
const text = fc.string({ maxLength: 12, unit: 'grapheme' }).filter((value) => !value.includes('${'))
const shared = {
  config: fc.dictionary(name, text, { maxKeys: 4 }),
  wasi: fc.boolean(),
  bodyLimit: fc.integer({ min: 1, max: 1e9 }),
  isolation: fc.constantFrom('reuse', 'fresh'),
}
const source = fc.constantFrom('/a.wasm', 'https://example.com/b.wasm')
const config = fc.record(
  {
    port: fc.integer({ min: 0, max: 65_535 }),
    accessLog: fc.boolean(),
    defaults: fc.record(shared, { requiredKeys: [] }),
    plugins: fc.dictionary(name, fc.record({ source, ...shared }, { requiredKeys: ['source'] }), {
      maxKeys: 3,
    }),
    routes: fc.array(fc.record({ plugin: source, ...shared }, { requiredKeys: ['plugin'] }), {
      minLength: 1,
      maxLength: 3,
    }),
  },
  { requiredKeys: [] },
)

test('what is valid means the same in JSON, YAML and TOML', () => {
  fc.assert(
    fc.property(config, ({ routes, ...rest }) => {
      const written = {
        ...rest,
        ...(routes && { routes: routes.map((route, index) => ({ url: `/${index}`, ...route })) }),
      }
      const data = JSON.parse(JSON.stringify(written)) // fast-check's objects have no prototype
      expect(configOf('json', JSON.stringify(data, null, 2))).toEqual(data)
      expect(configOf('yaml', stringify(data))).toEqual(data)
      expect(configOf('yaml', JSON.stringify(data))).toEqual(data)
      expect(configOf('toml', tomlOf(data))).toEqual(data)
    }),
    { numRuns: runs(100) },
  )
})

/** Values as TOML, with tables inline. */
function tomlOf(data: Record<string, unknown>): string {
  return Object.entries(data)
    .map(([key, value]) => `${tomlText(key)} = ${inline(value)}\n`)
    .join('')
}

function inline(value: unknown): string {
  if (typeof value === 'string') return tomlText(value)
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`
  if (typeof value !== 'object' || value === null) return String(value)
  const pairs = Object.entries(value).map(([key, item]) => `${tomlText(key)} = ${inline(item)}`)
  return `{${pairs.join(', ')}}`
}

function tomlText(value: string): string {
  return JSON.stringify(value).replaceAll('\x7f', '\\u007f')
}

test('the value of a variable is in no problem and in no text that was made safe', () => {
  const secret = fc
    .string({ minLength: 8, maxLength: 30, unit: 'binary' })
    .filter((value) => !value.includes('\0'))
  const place = fc.constantFrom(
    (t: string) => `port: ${t}`,
    (t: string) => `host: ${t}\nport: x`,
    (t: string) => `defaults: {wasi: ${t}, bodyLimit: ${t}}`,
    (t: string) => `defaults: {isolation: ${t}, contentType: ${t}, config: {a: ${t}}}\nprot: 1`,
    (t: string) => `plugins: {a: {source: ${t}}}\nroutes: [{plugin: ${t}, url: ${t}}, {plugin: b}]`,
    (t: string) => `logLevel: ${t}\ncacheFolder: ${t}`,
    (t: string) => `${t}: 1`,
  )
  fc.assert(
    fc.property(secret, place, (value, write) => {
      const secrets = new Secrets()
      const text = write(`"x\${SECRET}y"`)
      const all = problemsIn('yaml', text, { SECRET: value }).join('\n')
      expect(all.includes(value)).toBe(false)
      try {
        configOf('yaml', `defaults: {config: {a: "\${SECRET}"}}`, { SECRET: value }, secrets)
      } catch {
        throw new Error('this file is valid')
      }
      expect(secrets.hide(`before ${value} after`)).not.toContain(value)
      const line = JSON.stringify({ level: 'info', msg: `before ${value} after`, ms: 1 })
      expect(JSON.parse(secrets.hideInJson(line))).toMatchObject({ level: 'info', ms: 1 })
      expect(JSON.parse(secrets.hideInJson(line)).msg).not.toContain(value)
    }),
  )
})

test('the value of a variable is nowhere in the printed configuration', () => {
  const secret = fc
    .string({ minLength: 8, maxLength: 30, unit: 'binary' })
    .filter((value) => !value.includes('\0'))
  fc.assert(
    fc.property(secret, (value) => {
      const environment = { SECRET: value, WASM_SERVE_ENV: JSON.stringify({ key: value }) }
      const variable = `\${SECRET}`
      const text = JSON.stringify({
        host: variable,
        cacheFolder: `/${variable}`,
        defaults: { config: { a: `a ${variable}` }, links: { l: variable } },
        plugins: { p: { source: `x${variable}`, allowedPaths: { '/': variable } } },
        routes: [
          { plugin: 'p', function: variable },
          { url: `/${variable}`, plugin: `${variable}.wasm` },
        ],
      })
      const file = parseConfig(text, readJson, { path: 'c.json', environment, secrets: new Secrets() })
      const { server, routes = [] } = mergeConfig(readConfig([], environment), file)
      const given = wholeOf(server, routes)
      const printed = renderConfig({ file: 'c.json', given, options: checkGiven(given) })
      for (const form of [value, JSON.stringify(value).slice(1, -1)])
        expect(printed.includes(form)).toBe(false)
      expect(printed).toContain(`\${WASM_SERVE_ENV}`)
    }),
  )
})
