import { expect, test } from 'vitest'
import { type NamedRoute, nameConflicts } from '../../../src/route/name-conflicts.ts'

interface Route {
  readonly name: string
  /** Default: bytes. */
  readonly source?: string
  readonly digest?: string
  readonly kv?: NamedRoute['options']['kv']
  readonly usesStore?: boolean
}

function routeOf({ name, source, digest = name, kv, usesStore = true }: Route): NamedRoute {
  const imports = usesStore ? [{ module: 'wasm-serve:kv', name: 'get', kind: 'function' }] : []
  const plugin = { name, digest, imports, linked: [] }
  return { plugin, source: source ?? Uint8Array.of(0), options: { kv }, place: () => name } as never
}

const codesOf = (routes: readonly Route[]) =>
  nameConflicts(routes.map(routeOf)).map((error) => 'code' in error && error.code)

const NAME = 'WASM_SERVE_PLUGIN_NAME_SHARED'
const NAMESPACE = 'WASM_SERVE_NAMESPACE_SHARED'

test.each<[string, readonly [Omit<Route, 'name'>, Omit<Route, 'name'>], boolean]>([
  ['of one path', [{ source: 'a.wasm' }, { source: './a.wasm', digest: 'other' }], true],
  ['of different paths', [{ source: 'a.wasm' }, { source: 'b/a.wasm' }], false],
  ['of the same bytes', [{}, {}], true],
  ['of different bytes', [{}, { digest: 'other' }], false],
  ['of a path and of its bytes', [{ source: 'a.wasm' }, {}], true],
  ['of a path and of other bytes', [{ source: 'a.wasm' }, { digest: 'other' }], false],
])('two plug-ins of a name are one if they are %s', (_what, [one, other], isOne) => {
  const routes = [one, other].map((route) => ({ name: 'same', digest: 'same', ...route }))
  expect(codesOf(routes)).toEqual(isOne ? [] : [NAME])
})

test('each name is told once, whatever number of plug-ins has it', () => {
  const routes = ['a', 'b'].flatMap((name) => [1, 2, 3].map((digest) => ({ name, digest: `${digest}` })))
  expect(codesOf(routes)).toEqual([NAME, NAME])
})

const OWNER: Route = { name: 'owner' }
const READER: Route = { name: 'reader', kv: { access: 'read', namespace: 'owner' } }

test.each<[string, readonly [Route, Route], boolean]>([
  ['it sets the namespace', [OWNER, READER], false],
  ['it sets another namespace', [OWNER, { ...READER, kv: { access: 'read', namespace: 'other' } }], true],
  ['it sets no namespace', [OWNER, { name: 'reader' }], true],
  ['both set the namespace', [{ ...OWNER, kv: { access: 'readwrite', namespace: 'owner' } }, READER], true],
  ['it may not use the store', [OWNER, { ...READER, kv: { access: 'none', namespace: 'owner' } }], true],
  ['the other may not use the store', [{ ...OWNER, kv: { access: 'none' } }, READER], true],
  ['it does not use the store', [OWNER, { ...READER, usesStore: false }], true],
  ['the other does not use the store', [{ ...OWNER, usesStore: false }, READER], true],
])('whether a plug-in may use the namespace that is the name of another: %s', (_what, routes, isAllowed) => {
  const expected = isAllowed ? [] : [NAMESPACE]
  expect([codesOf(routes), codesOf(routes.toReversed())]).toEqual([expected, expected])
})

test('a plug-in reads what its own other routes store', () => {
  const routes = [{ name: 'a' }, { name: 'a', kv: { access: 'read', namespace: 'a' } }] as const
  expect(codesOf(routes)).toEqual([])
})
