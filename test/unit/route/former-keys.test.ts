import { expect, test } from 'vitest'
import { StoreUnavailableError } from '../../../src/errors/errors.ts'
import { reportFormerKeys } from '../../../src/route/former-keys.ts'
import { keepLog } from '../../support/instance.ts'

interface Route {
  readonly name: string
  /** Default: `plugin.wasm`. */
  readonly file?: string
  /** Default: the name. */
  readonly namespace?: string
  readonly access?: 'none' | 'readwrite'
  readonly imports?: string
}

const ONE: readonly Route[] = [{ name: 'one' }]

function routeOf({
  name,
  file = 'plugin.wasm',
  namespace = name,
  access = 'readwrite',
  imports = 'wasm-serve:kv',
}: Route) {
  const plugin = { name, file, imports: [{ module: imports, name: 'get', kind: 'function' }], linked: [] }
  return { options: { kv: { access, namespace } }, plugin }
}

/** A store whose pages are empty, but for the last one of each of these namespaces, which has a key. */
const storeWith = (...namespaces: readonly string[]) => ({
  kind: 'lmdb',
  list: (namespace: string, _prefix: string, _limit: number, cursor?: string) =>
    cursor === undefined
      ? { keys: [], cursor: 'next' }
      : { keys: namespaces.includes(namespace) ? ['key'] : [] },
})

interface Given {
  readonly isUsed?: boolean
  /** Default: all routes are. */
  readonly fresh?: readonly string[]
}

/** The fields of each warning about these routes. */
async function reported(routes: readonly Route[], open: () => unknown, { isUsed = true, fresh }: Given = {}) {
  const log = keepLog()
  const all = routes.map(routeOf)
  const isFresh = ({ plugin }: { plugin: { name: string } }) => fresh?.includes(plugin.name) ?? true
  const shared = { isUsed, open: async () => open() }
  await reportFormerKeys(all as never, new Set(all.filter(isFresh)) as never, shared as never, log as never)
  return log.lines.map(({ level, fields }) => ({ level, ...fields }))
}

const found = { level: 'warn', plugin: 'one', namespace: 'plugin.wasm' }

test('keys under the name of the file of a plug-in are reported if it has none under its own', async () => {
  expect(await reported(ONE, () => storeWith('plugin.wasm'))).toEqual([found])
  expect(await reported(ONE, () => storeWith('plugin.wasm', 'one'))).toEqual([])
  expect(await reported(ONE, () => storeWith('one'))).toEqual([])
})

test.each<[string, Partial<Route>]>([
  ['may not use the store', { access: 'none' }],
  ['has a namespace of its own', { namespace: 'other' }],
  ['uses no store', { imports: 'env' }],
  ['is in a file whose name is too long for a namespace', { file: 'x'.repeat(256) }],
])('nothing is reported of a plug-in that %s', async (_what, route) => {
  const { file = 'plugin.wasm' } = route
  expect(await reported([{ name: 'one', ...route }], () => storeWith(file))).toEqual([])
})

test('nothing is reported of keys that another plug-in uses, nor of routes that are served already', async () => {
  const user: Route = { name: 'two', file: 'two.wasm', namespace: 'plugin.wasm' }
  expect(await reported([...ONE, user], () => storeWith('plugin.wasm'))).toEqual([])
  expect(await reported(ONE, () => storeWith('plugin.wasm'), { fresh: [] })).toEqual([])
})

test('all plug-ins that had the same name are told', async () => {
  const routes = [...ONE, { name: 'two' }, { name: 'three', file: 'three.wasm' }]
  expect(await reported(routes, () => storeWith('plugin.wasm'), { fresh: ['one'] })).toEqual([
    { ...found, others: ['two'] },
  ])
})

test('a store in memory, which has no keys of before, and one that nothing has opened are not searched', async () => {
  expect(await reported(ONE, () => ({ ...storeWith('plugin.wasm'), kind: 'memory' }))).toEqual([])
  let opened = 0
  expect(await reported(ONE, () => opened++, { isUsed: false })).toEqual([])
  expect(opened).toBe(0)
})

test('a store that is unavailable is left to the calls, and another failure is not hidden', async () => {
  const failsWith = (error: Error) => () => Promise.reject(error)
  expect(await reported(ONE, failsWith(new StoreUnavailableError('redis:', 'no answer')))).toEqual([])
  await expect(reported(ONE, failsWith(new TypeError('a bug')))).rejects.toThrow(TypeError)
})
