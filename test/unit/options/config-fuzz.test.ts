import fc from 'fast-check'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { checkNode, withRoutes } from '../../../src/options/check-config.ts'
import { readConfig, renderConfig } from '../../../src/options/config.ts'
import { parseConfig } from '../../../src/options/config-file.ts'
import { toData } from '../../../src/options/config-node.ts'
import { type ConfigFormat, readConfigText } from '../../../src/options/config-text.ts'
import { mergeConfig } from '../../../src/options/merge.ts'
import { configOf, problemsIn } from '../../support/config-text.ts'
import { runs } from '../../support/runs.ts'

const formats: readonly ConfigFormat[] = ['json', 'yaml']

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
          '!!binary ',
          '%YAML 1.1\n',
          '//',
          '\r',
          '\\',
          '\t',
          '\r\n',
          '\uFEFF',
          '\0',
        ],
        ...['port: 1\n', '"port": 1', '"a": ', 'routes', '__proto__', 'constructor', '${', '}', '1e999', '~'],
      ),
      fc.string({ maxLength: 5, unit: 'binary' }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''))

test.each(formats)('whatever text a %s file holds, it is read or refused with places', async (format) => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(nearly, fc.string({ unit: 'binary' })), async (text) => {
      const lines = text.split('\n').length
      for (const problem of await problemsIn(format, text)) {
        const [, line = '', column = ''] = /^(\d+):(\d+): /.exec(problem) ?? []
        expect([problem, Number(line) >= 1 && Number(line) <= lines + 1, Number(column) >= 1]).toEqual([
          problem,
          true,
          true,
        ])
      }
      expect(Object.keys(Object.prototype)).toEqual([])
    }),
    { numRuns: runs(200) },
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

/** Any white space of JSON, for each place that may have some. */
const gaps = fc.array(fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 }), {
  minLength: 1,
  maxLength: 20,
})

test('JSON means what JSON.parse says, whatever its white space, and what JSON.parse refuses is no JSON', async () => {
  const exact = fc.jsonValue({ maxDepth: 5, noUnicodeString: false }).map((value) => JSON.stringify(value))
  const spaced = fc.tuple(exact, gaps).map(([json, spaces]) => {
    let next = 0
    const gap = () => spaces[next++ % spaces.length] ?? ''
    return json.replaceAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g, (token) => gap() + token + gap())
  })
  await fc.assert(
    fc.asyncProperty(fc.oneof(spaced, nearly), async (json) => {
      const { node, problems } = await readConfigText(json, 'json', 'c.json')
      let expected: unknown
      try {
        expected = JSON.parse(json)
      } catch {
        expect([node, problems.length]).toEqual([undefined, 1])
        return
      }
      // What no format may have: keys of objects, keys that are there twice, numbers that are too large.
      if (problems.length > 0) return
      expect(node && toData(node)).toEqual(expected)
    }),
    { numRuns: runs(200) },
  )
})

test('a place is that of the key or value, whatever stands before it', async () => {
  await fc.assert(
    fc.asyncProperty(gaps, fc.string({ unit: 'grapheme', maxLength: 8 }), async (spaces, before) => {
      const space = spaces.join('')
      const lead = `{${space}"defaults":${space}{"config":${space}{"a": ${JSON.stringify(before)}}},${space}`
      const lines = lead.split('\n')
      const [problem] = await problemsIn('json', `${lead}"prot": 1}`.replaceAll('${', '$ {'))
      expect(problem).toMatch(
        new RegExp(`^${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}: prot: unknown`),
      )
    }),
    { numRuns: runs(100) },
  )
})

test('what is valid means the same in JSON and YAML', async () => {
  await fc.assert(
    fc.asyncProperty(config, async ({ routes, ...rest }) => {
      const written = {
        ...rest,
        ...(routes && { routes: routes.map((route, index) => ({ url: `/${index}`, ...route })) }),
      }
      const data = JSON.parse(JSON.stringify(written)) // fast-check's objects have no prototype
      expect(await configOf('json', JSON.stringify(data, null, 2))).toEqual(data)
      expect(await configOf('yaml', stringify(data))).toEqual(data)
      expect(await configOf('yaml', JSON.stringify(data))).toEqual(data)
    }),
    { numRuns: runs(100) },
  )
})

test('the value of a variable is in no problem and in no text that was made safe', async () => {
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
  await fc.assert(
    fc.asyncProperty(secret, place, async (value, write) => {
      const secrets = new Secrets()
      const text = write(`"x\${SECRET}y"`)
      const all = (await problemsIn('yaml', text, { SECRET: value })).join('\n')
      expect(all.includes(value)).toBe(false)
      try {
        await configOf('yaml', `defaults: {config: {a: "\${SECRET}"}}`, { SECRET: value }, secrets)
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

test('the value of a variable is nowhere in the printed configuration', async () => {
  const secret = fc
    .string({ minLength: 8, maxLength: 30, unit: 'binary' })
    .filter((value) => !/[\0?#:({<]/.test(value)) // what no URL can have
  await fc.assert(
    fc.asyncProperty(secret, async (value) => {
      const environment = { SECRET: value, WASM_SERVE_ENV: JSON.stringify({ key: value }) }
      const variable = `\${SECRET}`
      const text = JSON.stringify({
        socket: variable,
        cacheFolder: `/${variable}`,
        defaults: { config: { a: `a ${variable}` }, links: { l: variable } },
        plugins: { p: { source: `x${variable}`, allowedPaths: { '/': variable } } },
        routes: [
          { plugin: 'p', function: variable },
          { url: `/${variable}`, plugin: `${variable}.wasm` },
        ],
      })
      const file = await parseConfig(text, 'json', { path: 'c.json', environment, secrets: new Secrets() })
      const { server, routes = [] } = mergeConfig(readConfig([], environment), file)
      const node = withRoutes(server, routes)
      const printed = renderConfig({ file: 'c.json', node, options: checkNode(server, routes) })
      for (const form of [value, JSON.stringify(value).slice(1, -1)])
        expect(printed.includes(form)).toBe(false)
      expect(printed).toContain(`\${WASM_SERVE_ENV}`)
    }),
  )
})
