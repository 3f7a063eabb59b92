import { describe, expect, test } from 'vitest'
import type { Isolation } from '../../../src/engine/engine.ts'
import { isWorn as isWornAs } from '../../../src/engine/instances.ts'
import type { RouteOptions } from '../../../src/options/options.ts'
import { resolveRoute } from '../../../src/options/resolved-route.ts'
import { MEMORY_MAX, type Plugin } from '../../../src/plugin/plugin.ts'
import { checkedRoute } from '../../support/route.ts'

const MIB = 1_048_576

describe('an instance has had its last call', () => {
  const reuse = { isolation: 'reuse', recycleMemory: 8 * MIB } as const
  const isWorn = (isolation: Isolation, memoryBytes: number, calls: number, bytesAtOpen: number) =>
    isWornAs(isolation, { memoryBytes, calls, bytesAtOpen })

  test('after each one if it is fresh', () => {
    expect(isWorn({ ...reuse, isolation: 'fresh' }, MIB, 1, MIB)).toBe(true)
    expect(isWorn(reuse, MIB, 1, MIB)).toBe(false)
  })

  test('after as many as recycle says', () => {
    const calls = [1, 2, 3, 4]
    expect(calls.map((count) => isWorn({ ...reuse, recycle: 3 }, MIB, count, MIB))).toEqual([
      false,
      false,
      true,
      true,
    ])
  })

  test('when its memory is beyond recycleMemory, by a byte', () => {
    expect(isWorn(reuse, 8 * MIB, 1_000, MIB)).toBe(false)
    expect(isWorn(reuse, 8 * MIB + 1, 1_000, MIB)).toBe(true)
  })

  test('and has grown beyond what it had when it was opened, by recycleGrowth', () => {
    const grows = { ...reuse, recycleGrowth: 2 * MIB }
    expect(isWorn(grows, 12 * MIB, 1, 10 * MIB)).toBe(false)
    expect(isWorn(grows, 12 * MIB + 1, 1, 10 * MIB)).toBe(true)
    expect(isWorn(reuse, 10 * MIB, 1, 10 * MIB)).toBe(false)
    expect(isWorn(reuse, 10 * MIB + 1, 1, 10 * MIB)).toBe(true)
  })
})

describe('the isolation of a route', () => {
  const plugin = { name: 'guest', settings: undefined }
  const isolationOf = (options: Partial<RouteOptions>, plugin: Pick<Plugin, 'name' | 'settings'>) =>
    resolveRoute(checkedRoute(options), plugin).isolation
  const reuse = { isolation: 'reuse' } as const

  test('replaces an instance at three quarters of its memory, if it has grown by a quarter', () => {
    const expected = { recycleMemory: 48 * 65_536, recycleGrowth: 16 * 65_536 }
    expect(isolationOf({ ...reuse, memoryMax: 64 }, plugin)).toMatchObject(expected)
    expect(isolationOf(reuse, plugin)).toMatchObject({ recycleMemory: (MEMORY_MAX * 65_536 * 3) / 4 })
  })

  test('takes the memory of a manifest if no option says another', () => {
    const memory = { maxPages: 8, maxHttpResponseBytes: undefined, maxVarBytes: undefined }
    const rest = {
      isRemote: false,
      timeoutMs: undefined,
      config: {},
      allowedHosts: undefined,
      allowedPaths: [],
    }
    const limited = { name: 'guest', settings: { ...rest, memory } }
    expect(isolationOf(reuse, limited)).toMatchObject({ recycleMemory: 6 * 65_536 })
    expect(isolationOf({ ...reuse, memoryMax: 64 }, limited)).toMatchObject({ recycleMemory: 48 * 65_536 })
  })

  test('is what its options say, without an allowance for growth', () => {
    const options = { ...reuse, recycle: 7, recycleMemory: 5 * MIB, memoryMax: 64 }
    const isolation = { ...reuse, recycle: 7, recycleMemory: 5 * MIB, recycleGrowth: 0 }
    expect(isolationOf(options, plugin)).toEqual(isolation)
  })
})
