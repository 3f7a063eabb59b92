import { expect, test } from 'vitest'
import { renderHistory, renderStatus } from '../../../src/cli/fleet/fleet-text.ts'
import { idOfOptions } from '../../../src/deploy/desired-state.ts'
import type { Version } from '../../../src/deploy/edits.ts'
import { NO_EDITS, withPlugins, withRoute, withVersion } from '../../../src/deploy/edits.ts'
import { type ComparedState, differenceOf, isEmpty } from '../../../src/deploy/fleet/difference.ts'
import type { FleetHead, SeenNode } from '../../../src/deploy/fleet/fleet-store.ts'
import { progressOf } from '../../../src/deploy/fleet/rollout.ts'
import {
  literalSecrets,
  parseShared,
  renderShared,
  type SharedConfiguration,
} from '../../../src/deploy/fleet/shared-configuration.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { readConfig } from '../../../src/options/config.ts'
import { parseConfig } from '../../../src/options/config-file.ts'
import { mergeConfig } from '../../../src/options/merge.ts'

const version = (digit: string): Version => {
  const digest = digit.repeat(64)
  return { digest, name: 'echo', from: 'file', addedAt: '', modules: [{ name: 'main', digest, bytes: 8 }] }
}

/** A config file, as the store has it: read for people. */
async function shared(config: object, path = 'fleet.json'): Promise<SharedConfiguration> {
  const context = { path, environment: { TOKEN: 'value-of-token' }, secrets: new Secrets() }
  const merged = mergeConfig(readConfig([], {}), await parseConfig(JSON.stringify(config), 'json', context))
  return {
    file: path,
    server: merged.server,
    defaults: { route: merged.route, plugins: merged.plugins },
    routes: (merged.routes ?? []).map((configured) => ({
      configured,
      name: 'echo',
      from: path,
      version: version('a'),
    })),
    warnings: [],
  }
}

async function state(config: object, digit = 'a', path?: string): Promise<ComparedState> {
  const configuration = parseShared(renderShared(await shared(config, path)), undefined)
  if ('problem' in configuration) throw new Error(configuration.problem)
  const none = { added: false, versions: [], traffic: [], over: digit.repeat(64) }
  return { configuration, edits: withPlugins(NO_EDITS, [['echo', withVersion(none, version(digit))]]) }
}

const ROUTE = { url: '/a', plugin: 'echo.wasm', config: { token: `\${TOKEN}` } }

test('equal states do not differ, wherever their files are', async () => {
  const one = await state({ routes: [ROUTE] }, 'a', '/one/fleet.json')
  const other = await state(
    { routes: [{ config: ROUTE.config, plugin: 'echo.wasm', url: '/a' }] },
    'a',
    '/other/f.json',
  )
  expect(isEmpty(differenceOf(one, other))).toBe(true)
})

test('routes, options, plug-ins and defaults that differ are named', async () => {
  const before = await state({
    rateLimit: { max: 1, timeWindowMs: 1 },
    routes: [ROUTE, { url: '/b', plugin: 'echo.wasm' }],
  })
  const after = await state(
    { http2: true, defaults: { timeoutMs: 9 }, routes: [ROUTE, { url: '/c', plugin: 'echo.wasm' }] },
    'b',
  )
  const found = differenceOf(before, after)
  expect(found.server).toEqual([
    { name: 'rateLimit', before: '{"max":1,"timeWindowMs":1}', after: undefined },
  ])
  expect(found.defaults).toEqual([{ name: 'timeoutMs', before: undefined, after: '9' }])
  expect(found.plugins).toEqual([{ name: 'echo', before: 'a'.repeat(64), after: 'b'.repeat(64) }])
  expect(found.routes.map(({ route, change }) => [route, change])).toEqual([
    ['POST /a', 'changed'],
    ['POST /b', 'removed'],
    ['POST /c', 'added'],
  ])
})

test('a route is named by its methods, host and URL', async () => {
  const route = { url: '/x', host: 'a.example', method: ['GET', 'POST'], plugin: 'echo.wasm' }
  const { routes } = differenceOf(await state({ routes: [ROUTE] }), await state({ routes: [ROUTE, route] }))
  expect(routes).toMatchObject([{ route: 'GET,POST a.example/x', change: 'added' }])
})

test('a changed secret differs and is not shown, and a variable is shown by its name', async () => {
  const [one, other] = await Promise.all(
    ['first-literal-key', 'other-literal-key'].map((key) => state({ apiKeys: [key], routes: [ROUTE] })),
  )
  if (!one || !other) throw new Error('there are two states')
  const { server } = differenceOf(one, other)
  expect(server).toEqual([{ name: 'apiKeys', before: '["(secret)"]', after: '["(secret)"]' }])
  const all = JSON.stringify(differenceOf(await state({ routes: [{ url: '/x', plugin: 'echo.wasm' }] }), one))
  expect(all).toContain('TOKEN')
  for (const secret of ['value-of-token', 'first-literal-key']) expect(all).not.toContain(secret)
})

test('a route that the admin API has replaced is marked', async () => {
  const before = await state({ routes: [ROUTE] })
  const after = await state({ routes: [{ ...ROUTE, timeoutMs: 5 }] })
  const id = idOfOptions({ url: '/a' })
  const edited = { ...after, edits: withRoute(after.edits, id, { options: { plugin: 'echo', url: '/a' } }) }
  expect(differenceOf(before, after).routes).toMatchObject([{ overridden: false }])
  expect(differenceOf(before, edited).routes).toMatchObject([{ overridden: true }])
})

test('literal secrets are found, masked where they are read, and variables are not among them', async () => {
  const key = 'literal-key-abcdef'
  const configuration = await shared({ apiKeys: [key, `\${TOKEN}-and-more-text`], routes: [ROUTE] })
  expect(literalSecrets(configuration)).toMatchObject([{ kind: 'file', line: 1 }])
  const secrets = new Secrets()
  const environment = { TOKEN: 'value-of-token' }
  expect(
    parseShared(renderShared(configuration), { environment, secrets, variables: ['TOKEN'] }),
  ).not.toHaveProperty('problem')
  expect(secrets.hide(`${key} value-of-token`)).toBe(`(secret) \${TOKEN}`)
})

const newest = {
  ...{ revision: 2, id: 'two', configuration: '', edits: '', at: '2026-01-01T00:00:00Z' },
  ...{ by: 'me\u001b[31m', reason: 'why\nnot' },
}
const head: FleetHead = {
  ...{ tag: 't', fleet: 'f', newest },
  rollout: { phase: 'all', since: 0, nodes: [], canaryMs: 0, maxRefusals: 1, onRefusals: 'stop' },
}
const node: SeenNode = {
  ...{ node: 'one', instance: 'i', revision: 2, id: 'two', since: '2026-01-01T00:00:00Z', from: 'fleet' },
  ...{ version: '1', plugins: { echo: 'a'.repeat(64) }, pluginCount: 1, pollMs: 100, seen: 1_000 },
}
const refused = { revision: 2, id: 'two', code: 'WASM_SERVE_X', message: 'line\u001b[2J', attempts: 2 }

test.each([
  ['served', head, [node]],
  ['served', head, [node, { ...node, node: 'lost', id: 'one', seen: -60_000 }]],
  ['underway', head, []],
  ['underway', head, [{ ...node, seen: -60_000 }]],
  ['underway', head, [node, { ...node, id: 'one', revision: 1 }]],
  ['refused', head, [node, { ...node, id: 'one', refused }]],
  ['underway', head, [node, { ...node, id: 'one', refused: { ...refused, id: 'before' } }]],
  ['refused', { ...head, rollout: { ...head.rollout, phase: 'stopped' } }, [node]],
] as const)('a revision is %s', (expected, head, nodes) => {
  expect(progressOf(head, { nodes, now: 1_000 })).toBe(expected)
})

test('tables have one line each, whatever the store has', async () => {
  const status = renderStatus('store', head, { nodes: [node, { ...node, refused }], now: 1_000 })
  const history = renderHistory([newest])
  expect(status).toContain('echo     aaaaaaaaaaaa  2 of 2')
  expect(history.split('\n')).toHaveLength(3)
  for (const text of [status, history]) expect(text).not.toContain('\u001b')
})
