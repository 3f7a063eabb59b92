import { expect, test } from 'vitest'
import type { CallHooks } from '../../../src/index.ts'
import { callableRoute } from '../../../src/route/callable-route.ts'
import { hooksOf } from '../../../src/route/route.ts'
import { keepLog } from '../../support/instance.ts'

const SERVED = { url: '/run' }
const REQUEST = { id: 'mine' }

/** A route whose guest answers this, what its hooks are told, and a call of it. */
function openRoute(guest: (input: string, exportName: string) => string, more: CallHooks = {}) {
  const told: unknown[] = []
  const hooks: CallHooks = {
    onResult: ({ route, request, output, ms }) =>
      void told.push({ route, request, result: `${Buffer.from(output)}`, isTimed: ms > 0 }),
    onError: ({ route, request, error, ms }) =>
      void told.push({ route, request, failure: error.message, isTimed: ms > 0 }),
  }
  const live = {
    options: { plugin: 'a.wasm' },
    exportName: 'run',
    listeners: {},
    instances: {
      call: async (name: string, input: Uint8Array) => Buffer.from(guest(`${Buffer.from(input)}`, name)),
    },
  }
  const pool = { countsOf: () => undefined }
  const route = callableRoute({ live } as never, SERVED as never, pool as never, hooksOf(hooks, more))
  const caller = { request: REQUEST, log: keepLog(), isGone: false } as never
  return {
    route,
    told,
    call: async (input: string, name?: string) => `${await route.call(Buffer.from(input), caller, name)}`,
  }
}

const echo = (input: string, name: string) => `${name} ${input}`
const trap = () => {
  throw new Error('it trapped')
}

test('hooks are told of a call and its result, and a call for no client has none', async () => {
  const { route, told, call } = openRoute(echo)
  expect([await call('a'), await call('b', 'other')]).toEqual(['run a', 'other b'])
  await route.ask('describe', Buffer.of(), keepLog())
  expect(told).toEqual(
    ['run a', 'other b'].map((result) => ({ route: SERVED, request: REQUEST, result, isTimed: true })),
  )
})

test('hooks are told of a call that fails, with its error', async () => {
  const { told, call } = openRoute(trap)
  await expect(call('a')).rejects.toThrow('it trapped')
  expect(told).toEqual([{ route: SERVED, request: REQUEST, failure: 'it trapped', isTimed: true }])
})

test('a hook replaces the input, or refuses the call, which then takes no time', async () => {
  const { call } = openRoute(echo, { onCall: () => Buffer.from('other') })
  expect(await call('a')).toBe('run other')
  const refusing = openRoute(echo, {
    onCall: () => {
      throw new Error('refused')
    },
  })
  await expect(refusing.call('a')).rejects.toThrow('refused')
  expect(refusing.told).toEqual([{ route: SERVED, request: REQUEST, failure: 'refused', isTimed: false }])
})

test('the source of a route is the text of its plug-in', () => {
  expect(openRoute(echo).route.source).toBe('a.wasm')
})
