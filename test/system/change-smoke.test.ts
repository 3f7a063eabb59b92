import { expect, test } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { changing } from '../support/change.ts'
import { guest } from '../support/guest.ts'

const ECHO: RouteOptions = { plugin: guest('echo') }

test('instances that are kept have to answer a smoke request that is new, or asked in another way', async () => {
  const { attempt: change, to, post } = await changing([ECHO])
  const attempt = (route: Partial<RouteOptions>) => change(to([{ ...ECHO, ...route }]))
  const refused = { ok: false, error: { code: 'WASM_SERVE_SMOKE_FAILED' } }
  expect(await attempt({ smoke: { body: 'abc', answer: 'ABC' } })).toMatchObject(refused)
  const smoke = { body: 'abc', answer: 'abc' }
  expect(await attempt({ smoke })).toMatchObject({ ok: true, kept: 1 })
  for (const type of ['', ';;', 'text', 'text/plain; charset'])
    expect(await attempt({ smoke: { ...smoke, headers: { 'content-type': type } } })).toMatchObject({
      ok: true,
    })
  expect(await attempt({ smoke, contract: 'http' })).toMatchObject(refused)
  expect(await post('/', 'abc')).toEqual({ status: 200, body: 'abc' })
})

test('changes come one after the other, in the order in which they were asked for', async () => {
  const { attempt, to, post } = await changing([ECHO])
  const plugins = ['upper', 'echo', 'absent', 'upper', 'echo', 'upper']
  const all = plugins.map((name) =>
    attempt(to([{ plugin: name === 'absent' ? 'absent.wasm' : guest(name) }])),
  )
  expect((await Promise.all(all)).map(({ revision, ok }) => [revision, ok])).toEqual([
    [2, true],
    [3, true],
    [3, false],
    [4, true],
    [5, true],
    [6, true],
  ])
  expect((await post('/', 'abc')).body).toBe('ABC')
})

test.each([
  ['inline', {}],
  ['workers', { workers: 1 }],
] as const)('a smoke request decides whether a plug-in goes live (%s)', async (_, engine) => {
  const { attempt, to, post } = await changing([ECHO])
  const change = (
    name: string,
    smoke: NonNullable<RouteOptions['smoke']>,
    more: Partial<RouteOptions> = {},
  ) => attempt(to([{ plugin: guest(name), ...engine, ...more, smoke }]))
  const refused = { ok: false, error: { code: 'WASM_SERVE_SMOKE_FAILED' } }
  expect(await change('upper', { body: 'abc', answer: 'abc' })).toMatchObject(refused)
  expect(await change('upper', { body: 'abc', status: 409 })).toMatchObject(refused)
  expect(await change('trap', {})).toMatchObject(refused)
  expect((await post('/', 'abc')).body).toBe('abc')
  const more = { method: 'PUT', url: '/a/:b' } as const
  expect(await change('upper', { url: '/a/b', body: 'abc', answer: 'ABC' }, more)).toMatchObject({ ok: true })
})
