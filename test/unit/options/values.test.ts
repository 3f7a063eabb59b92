import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { configFileSchema } from '../../../src/options/config-file-schema.ts'
import { kindOf } from '../../../src/options/flags.ts'
import { checkValue, type Problem, type Schema } from '../../../src/options/schema.ts'

/** All values of a config file, by their paths; those of plug-ins and of `defaults` as far as they are not those of routes. */
function valuesIn(schema: Schema, path: string): [path: string, schema: Schema][] {
  const { properties = {}, patternProperties = {}, additionalProperties, items, anyOf = [] } = schema
  const others = [...Object.values(patternProperties), additionalProperties]
  const inner = [
    ...Object.entries(properties).map(([key, part]) => [`${path}${key}`, part] as const),
    ...others.map((part) => [`${path}*`, part] as const),
    ...[items, ...anyOf].map((part) => [path.replace(/\.$/, '[]'), part] as const),
  ]
  return inner.flatMap(([at, part]) =>
    typeof part === 'object' ? [[at, part] as [string, Schema], ...valuesIn(part, `${at}.`)] : [],
  )
}

const OWN = ['source', 'exports']
const { defaults: _, plugins, routes, ...server } = configFileSchema.properties ?? {}
const ofPlugin =
  typeof plugins?.additionalProperties === 'object' ? plugins.additionalProperties.properties : {}
const values = [
  ...valuesIn({ properties: server }, ''),
  ...valuesIn({ properties: routes?.items?.properties ?? {} }, ''),
  ...valuesIn({ properties: Object.fromEntries(OWN.map((name) => [name, ofPlugin?.[name] ?? {}])) }, ''),
]

function accepts(schema: Schema, value: unknown): boolean {
  const found: Problem[] = []
  checkValue(value, schema, found)
  return found.length === 0
}

const those = (is: (schema: Schema, path: string) => boolean | undefined) =>
  new Set(values.flatMap(([path, schema]) => (is(schema, path) ? [path] : [])))

test('the schema of config files is a JSON schema: it names only types that there are, and requires only what it describes', () => {
  const keywords = ['hint', 'unit', 'secret', 'public', 'holds', 'facts', 'nameOrContract', 'threadCount']
  const ajv = new Ajv2020({ strict: true, strictRequired: true, strictTypes: false, useDefaults: true })
  ajv.addVocabulary([...keywords, 'pluginSource', 'hostFunctions', 'callHook', 'allowedHost'])
  ajv.compile(configFileSchema)
  expect(accepts(configFileSchema, { $schema: 'https://example.com/schema.json' })).toBe(true)
})

test('texts that may be empty are values of the guest and of clients, and descriptions', () => {
  const ofGuests = ['config.*', 'env.*', 'headers.*', 'allowedPaths.*', 'links.*', 'description']
  const ofClients = ['smoke.headers.*', 'smoke.body', 'smoke.answer', 'tool.annotations.title']
  expect(those((schema) => schema.type === 'string' && accepts(schema, ''))).toEqual(
    new Set([...ofGuests, ...ofClients, '$schema', 'fleet.keyPrefix']),
  )
})

test('lists that may be empty allow nothing more, or hide nothing more', () => {
  expect(those((schema) => schema.type === 'array' && accepts(schema, []))).toEqual(
    new Set([
      ...['mcp.redactArguments', 'redactHeaders', 'allowedHosts', 'websocketOrigins', 'websocketProtocols'],
      ...['functions', 'paths', 'env', 'processes'].map((name) => `fleet.allow.${name}`),
    ]),
  )
})

test('a method and a function are not served twice', () => {
  expect(those(({ uniqueItems }) => uniqueItems)).toEqual(new Set(['method[]', 'exports']))
})

describe('units', () => {
  test('times have one, in their names and in values', () => {
    expect(those((schema) => kindOf(schema) === 'time')).toEqual(
      those((schema, path) => schema.type === 'integer' && path.endsWith('Ms')),
    )
  })

  test('so have sizes, which say so', () => {
    const says = ({ description = '' }: Schema) => /\b(?:bytes|pages of)\b/i.test(description)
    expect(those((schema) => ['size', 'pages'].includes(kindOf(schema)))).toEqual(
      those((schema, path) => schema.type === 'integer' && !path.endsWith('Ms') && says(schema)),
    )
  })
})

describe('numbers', () => {
  const isNumber = ({ type }: Schema) => type === 'integer'

  test('that may be 0 turn something off, need no time, or let nothing in', () => {
    const isLimit = (path: string) => path.startsWith('moduleLimits.')
    expect(those((schema, path) => isNumber(schema) && !isLimit(path) && accepts(schema, 0))).toEqual(
      new Set([
        ...['stallMs', 'idleMs', 'sseHeartbeatMs', 'websocketPingMs', 'websocketIdleMs', 'mcp.ttlMs'],
        ...['drainMs', 'graceMs', 'fleet.canaryMs', 'tool.task.afterMs', 'cors.maxAge', 'port'],
        ...['bodyLimit', 'outputLimit', 'varMax', 'httpResponseMax', 'compress.thresholdBytes'],
        ...['fleet.moduleMax', 'fleet.maxRefusals', 'spareWorkers'],
      ]),
    )
    expect(those((schema, path) => isNumber(schema) && isLimit(path) && !accepts(schema, 0))).toEqual(
      new Set(),
    )
  })

  test('are whole and never negative, and their defaults are right', () => {
    const wrong = (schema: Schema) => accepts(schema, -1) || accepts(schema, 1e5 + 0.5)
    expect(those((schema) => isNumber(schema) && wrong(schema))).toEqual(new Set())
    const defaults = values.flatMap(([path, schema]) => {
      const said = / Default: (\d+)\b/.exec(schema.description ?? '')?.[1]
      const value = schema.default ?? (isNumber(schema) && said !== undefined ? Number(said) : undefined)
      return value === undefined ? [] : [[path, accepts(schema, value)]]
    })
    expect(defaults.length).toBeGreaterThan(50)
    expect(defaults.filter(([, isRight]) => !isRight)).toEqual([])
  })

  test('accept what is at their limits', () => {
    const limits = ({ minimum, maximum }: Schema) => [minimum, maximum].filter((limit) => limit !== undefined)
    const isReached = (schema: Schema) => limits(schema).every((limit) => accepts(schema, limit))
    expect(those((schema) => isNumber(schema) && !isReached(schema))).toEqual(new Set())
  })
})

test('no object takes a key that it does not describe', () => {
  const takes = (schema: Schema) => {
    const found: Problem[] = []
    checkValue({ 'no-such-key': {} }, schema, found)
    return !found.some(({ ofKey }) => ofKey)
  }
  expect(those((schema) => schema.properties !== undefined && takes(schema))).toEqual(new Set())
})

test('a namespace of the store has at most 255 characters', () => {
  const [, namespace = {}] = values.find(([path]) => path === 'kv.namespace') ?? []
  expect(accepts(namespace, 'n'.repeat(255))).toBe(true)
  expect(accepts(namespace, 'n'.repeat(256))).toBe(false)
})

test('what a message and an editor show as an example is right', () => {
  const wrong = (schema: Schema) => schema.examples?.some((example) => !accepts(schema, example))
  expect(those(wrong)).toEqual(new Set())
})
