import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { shareWorkers } from '../../../src/deploy/processes/share-workers.ts'
import {
  checkCreateServerOptions,
  checkServerOptions,
  problemsOf,
  type ServerOptions,
} from '../../../src/options/options.ts'

const ROUTES = [{ plugin: 'a.wasm' }]

function problems(check: (options: unknown) => unknown, options: Partial<ServerOptions>): string[] {
  try {
    check({ routes: ROUTES, ...options })
    return []
  } catch (error) {
    return problemsOf(error as never).map(({ option }) => option)
  }
}

test('a number of processes, or auto', () => {
  expect(problems(checkServerOptions, { processes: 4, processMemoryMax: 1_000_000 })).toEqual([])
  expect(problems(checkServerOptions, { processes: 'auto' })).toEqual([])
  expect(problems(checkServerOptions, { processes: -1 })).toEqual(['processes'])
})

test('limits of their memory and silence need processes', () => {
  expect(problems(checkServerOptions, { processes: 2, processSilentMs: 3_000 })).toEqual([])
  expect(problems(checkServerOptions, { processes: 2, processSilentMs: 2_999 })).toEqual(['processSilentMs'])
  expect(problems(checkServerOptions, { processSilentMs: 3_000 })).toEqual(['processSilentMs'])
  expect(problems(checkServerOptions, { processMemoryMax: 1_000_000 })).toEqual(['processMemoryMax'])
})

test('a program is one process', () => {
  expect(problems(checkCreateServerOptions, { processes: 2 })).toEqual(['processes'])
})

test('all processes together have the workers of a route, rounded up', () => {
  const share = shareWorkers(4)
  const route = (workers?: number | 'auto') => ({
    ...(checkServerOptions({ routes: [{ plugin: 'a.wasm', ...(workers !== undefined && { workers }) }] })
      .routes[0] ?? expect.unreachable()),
  })
  const sharesOf = [8, 4, 5, 1, 0, undefined].map((workers) => share(route(workers)).workers)
  expect(sharesOf).toEqual([2, 1, 2, 1, 0, undefined])
  expect(share(route('auto')).workers).toBe(Math.ceil(availableParallelism() / 4))
})

test('the same route has the same share, so that a change keeps its instances', () => {
  const share = shareWorkers(2)
  const [route] = checkServerOptions({ routes: [{ plugin: 'a.wasm', workers: 4 }] }).routes
  if (!route) return expect.unreachable()
  expect(share(route)).toBe(share(route))
})
