import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, test } from 'vitest'
import { bodies, SCHEMAS } from '../../../src/admin/api/schemas.ts'
import type { ServerView } from '../../../src/admin/feature.ts'
import type { Version } from '../../../src/deploy/edits.ts'
import type { NodeReport, Rollout } from '../../../src/deploy/fleet/fleet-store.ts'
import type { ProcessInfo } from '../../../src/deploy/processes/supervisor.ts'
import type { Engine } from '../../../src/engine/engine.ts'
import type { JsonSchema } from '../../../src/route/openapi/xtp-schema.ts'

const DIGEST = '0123456789abcdef'.repeat(4)

/** As strict as Ajv can be: names that are required but not described, unknown types and formats are refused. */
const ajv = new Ajv2020({ strict: true, strictRequired: true, formats: { 'date-time': true } })
ajv.addVocabulary(['components'])
ajv.addSchema({ $id: 'https://example.com/api', components: { schemas: SCHEMAS } })

test.each(Object.entries(SCHEMAS))('the schema of %s is valid, with what it refers to', (name, schema) => {
  expect(ajv.validateSchema(schema)).toBe(true)
  ajv.compile({ $ref: `https://example.com/api#/components/schemas/${name}` })
  for (const [, target] of JSON.stringify(schema).matchAll(/"\$ref":"([^"]*)"/g))
    expect(Object.keys(SCHEMAS)).toContain(/^#\/components\/schemas\/(\w+)$/.exec(target ?? '')?.[1])
})

type Words<Word extends string> = Readonly<Record<Word, true>>

/** All words of a field, by the types of what is shown. */
const WORDS = {
  server: { starting: true, serving: true, draining: true } satisfies Words<ServerView['state']>,
  process: { starting: true, serving: true, silent: true, waiting: true } satisfies Words<
    ProcessInfo['state']
  >,
  version: { file: true, url: true, upload: true } satisfies Words<Version['from']>,
  engine: { inline: true, workers: true, subprocess: true } satisfies Words<Engine['name']>,
  route: { configuration: true, api: true },
  node: { fleet: true, copy: true, files: true } satisfies Words<NodeReport['from']>,
  phase: { canary: true, all: true, done: true, stopped: true } satisfies Words<Rollout['phase']>,
}

test.each([
  ['Overview', ['state'], WORDS.server],
  ['Live', ['state'], WORDS.server],
  ['Process', ['state'], WORDS.process],
  ['Version', ['from'], WORDS.version],
  ['Route', ['engine'], WORDS.engine],
  ['Route', ['split', 'engine'], WORDS.engine],
  ['Route', ['from'], WORDS.route],
  ['FleetNode', ['from'], WORDS.node],
  ['Fleet', ['rollout', 'phase'], WORDS.phase],
] as const)('the schema of %s names each %j that there is', (name, path, words) => {
  const described = path.reduce<JsonSchema | undefined>(
    (schema, key) => schema?.properties?.[key],
    SCHEMAS[name],
  )
  expect(new Set(described?.enum)).toEqual(new Set(Object.keys(words)))
})

/** One for all: to make one takes long. */
const plain = new Ajv2020()
const half = { digest: DIGEST, percent: 50 }

test.each<[name: keyof typeof bodies, taken: readonly unknown[], refused: readonly unknown[]]>([
  [
    'source',
    [{}, { source: 'a' }, { wasm: 'A' }, { wasm: 'A', bundle: '{}' }],
    [{ source: '' }, { wasm: '' }, { bundle: '' }, { source: 1 }, { other: 'a' }, []],
  ],
  [
    'traffic',
    [[half, half], [{ digest: DIGEST.slice(0, 8), percent: 100 }], [{ ...half, percent: 1 }]],
    [
      ...[[], [half, half, half], half, [{ digest: DIGEST }], [{ percent: 100 }]],
      ...[0, -1, 101, 0.5, '50'].map((percent) => [{ ...half, percent }]),
      ...['', DIGEST.slice(0, 7), `${DIGEST}0`, DIGEST.toUpperCase(), `sha256:${DIGEST}`].map((digest) => [
        { ...half, digest },
      ]),
    ],
  ],
  ['rollback', [{}, { digest: DIGEST }], [{ digest: '' }, { revision: 1 }]],
  ['fleetRollback', [{}, { revision: 1 }], [{ revision: 0 }, { revision: 1.5 }, { digest: DIGEST }]],
  [
    'call',
    [{ url: '/' }, { url: '/a?b', method: 'A'.repeat(20), headers: { a: '1' }, body: '' }],
    [
      ...[{}, { url: '' }, { url: 'a' }, { url: 'http://a.example/' }, { url: '/', hasBody: true }],
      ...['', 'get', 'A'.repeat(21), 'GET '].map((method) => ({ url: '/', method })),
      ...[
        { url: '/', headers: { a: 1 } },
        { url: '/', headers: [] },
        { url: '/', body: 1 },
      ],
    ],
  ],
  [
    'streamedCall',
    [{ url: '/' }, { url: '/', hasBody: true }],
    [{ hasBody: true }, { url: '/', hasBody: 'yes' }, { url: '/', body: '' }],
  ],
  ['route', [{ plugin: 'a' }, { plugin: 'a', url: '/' }], [{}, { plugin: '' }, { url: '/' }, []]],
])('a body for %s has what it must have, and nothing else', (name, taken, refused) => {
  const check = plain.compile(bodies[name])
  expect(taken.filter((body) => !check(body))).toEqual([])
  expect(refused.filter((body) => check(body))).toEqual([])
})

test.each(['Answer', 'CallLine'] as const)('an answer to a call may have any headers: %s', (name) => {
  const check = plain.compile(SCHEMAS[name].properties?.headers ?? false)
  expect(check({ 'x-a': 'b', 'set-cookie': ['a', 'b'] })).toBe(true)
})

test('a call is a POST without a body, unless it says more', () => {
  const fill = new Ajv2020({ useDefaults: true })
  const filled = [bodies.call, bodies.streamedCall].map((schema) => {
    const body = { url: '/' }
    fill.validate(schema, body)
    return body
  })
  expect(filled).toEqual([
    { url: '/', method: 'POST' },
    { url: '/', method: 'POST', hasBody: false },
  ])
})

test.each([
  ['a count', SCHEMAS.Overview.properties?.routes, [0, 1], [-1, 0.5, '1']],
  ['a percentage', SCHEMAS.Version.properties?.percent, [0, 100], [-1, 101]],
  ['a number of a process', SCHEMAS.Process.properties?.number, [1], [0]],
  ['a revision of a fleet', SCHEMAS.FleetRevision.properties?.revision, [1], [0]],
  ['a digest', SCHEMAS.Version.properties?.digest, [DIGEST], ['', DIGEST.slice(1), `${DIGEST}0`]],
] as const)('%s in an answer is within its limits', (_, schema = {}, right, wrong) => {
  const check = plain.compile(schema)
  expect(right.filter((value) => !check(value))).toEqual([])
  expect(wrong.filter((value) => check(value))).toEqual([])
})
