import { expect, test } from 'vitest'
import { forbiddenIn, type Permissions } from '../../../src/deploy/fleet/permissions.ts'
import { type ConfigMap, fromData, mapOf } from '../../../src/options/config-node.ts'

const PLACE = { kind: 'file', file: 'fleet', line: 2, column: 3 } as const

const map = (options: object): ConfigMap =>
  mapOf(
    Object.entries(options).map(([name, value]) => [name, fromData(value, PLACE)]),
    PLACE,
  )

/** What a node with these permissions forbids options of a route. */
const forbidden = (options: object, permissions: Permissions = {}) =>
  forbiddenIn(
    {
      file: undefined,
      server: map({}),
      defaults: { route: map(options), plugins: new Map() },
      routes: [],
      warnings: [],
    },
    permissions,
  )

test.each<[asked: object, permissions: Permissions]>([
  [{ allowedPaths: { '/srv/data': '/data' } }, { paths: ['/srv/data'] }],
  [{ allowedPaths: { 'ro:/srv/data': '/data' } }, { paths: ['/srv/data'] }],
  [{ allowedPaths: { 'ro:/srv/data': '/data' } }, { paths: ['ro:/srv/data'] }],
  [{ links: { lib: '/srv/lib.wasm' } }, { paths: ['/srv/lib.wasm'] }],
  [{ links: { lib: '/srv/lib.wasm' } }, { paths: ['ro:/srv/lib.wasm'] }],
  [{ links: { lib: 'https://a.example/lib.wasm' } }, { paths: ['https://a.example/lib.wasm'] }],
  [{ functions: '/srv/functions.mjs' }, { functions: ['/srv/functions.mjs'] }],
  [{ process: 'tenants' }, { processes: ['others', 'tenants'] }],
  [{ workers: 2, config: { key: 'value' } }, {}],
])('a node that allows it serves %j (%j)', (asked, permissions) => {
  expect(forbidden(asked, permissions)).toEqual([])
})

test.each<[asked: object, permissions: Permissions, reason: string]>([
  [{ allowedPaths: { '/srv/data': '/data' } }, { paths: ['ro:/srv/data'] }, 'paths'],
  [{ allowedPaths: { '/srv/data/': '/data' } }, { paths: ['/srv/data'] }, 'paths'],
  [{ allowedPaths: { data: '/data' } }, { paths: ['data'] }, 'paths'],
  [{ links: { lib: '/srv/lib.wasm' } }, {}, 'paths'],
  [{ functions: '/srv/functions.mjs' }, { paths: ['/srv/functions.mjs'] }, 'functions'],
  [{ process: 'tenants' }, { processes: ['others'] }, 'processes'],
])('a node refuses %j with the permissions %j', (asked, permissions, list) => {
  expect(forbidden(asked, permissions)).toEqual([
    expect.stringMatching(new RegExp(`^fleet:2:3: \\w+: .* is not in fleet\\.allow\\.${list}$`)),
  ])
})

test.each(['onCall', 'unknown'])('only a node sets %s', (name) => {
  expect(forbidden({ [name]: 'a' })).toEqual([`fleet:2:3: ${name}: only a node sets it`])
})

test('of many reasons the first 20 are shown, and the others are counted', () => {
  const asked = (count: number) => ({
    links: Object.fromEntries(Array.from({ length: count }, (_, place) => [`l${place}`, `/srv/${place}`])),
  })
  expect(forbidden(asked(20))).toHaveLength(20)
  const many = forbidden(asked(22))
  expect(many).toHaveLength(21)
  expect(many.at(-1)).toBe('and 2 more')
})

test('of a long value the beginning is shown', () => {
  const [reason = ''] = forbidden({ process: 'p'.repeat(1_000) })
  expect(reason).toContain(`process: ${'p'.repeat(200)} is not in`)
})
