import { describe, expect, test } from 'vitest'
import { importProviderOf, isOfOldPdk, orderModules } from '../../../src/runtime/link-plan.ts'

const EXTISM = 'extism:host/env'
const WASI = 'wasi_snapshot_preview1'

describe('an import is provided', () => {
  test.each(
    `alloc free length length_unsafe load_u8 load_u64 store_u8 store_u64 input_offset input_length input_load_u8
    input_load_u64 output_set error_set error_get`.split(/\s+/),
  )('by the kernel: %s', (name) => {
    expect(importProviderOf(EXTISM, name)).toBe('kernel')
    expect(importProviderOf('env', name)).toBeUndefined()
  })

  test.each(
    `config_get var_get var_set http_request http_status_code http_headers log_trace log_debug log_info log_warn
    log_error get_log_level`.split(/\s+/),
  )('by the host: %s', (name) => {
    expect(importProviderOf(EXTISM, name)).toBe('host')
  })

  test('by WASI, if it has the function', () => {
    expect(importProviderOf(WASI, 'fd_write')).toBe('wasi')
    expect(importProviderOf(WASI, 'alloc')).toBeUndefined()
    expect(importProviderOf('wasi_unstable', 'fd_write')).toBeUndefined()
  })

  test('by nobody else', () => {
    for (const name of ['', 'fd_write', 'alloc2', 'toString'])
      expect(importProviderOf(EXTISM, name)).toBeUndefined()
  })

  test('by nobody if a PDK is too old', () => {
    expect(isOfOldPdk('env', 'extism_alloc')).toBe(true)
    expect([isOfOldPdk('env', 'alloc'), isOfOldPdk(EXTISM, 'extism_alloc')]).toEqual([false, false])
  })
})

describe('modules are ordered', () => {
  /** Links as text: `a>b` imports a function, `a>>b` something that is needed first. */
  function order(links: string): string[] {
    const all = links.split(' ').map((link) => link.split(/>+/))
    const linksOf = (module: string) =>
      links.split(' ').flatMap((link, place) => {
        const [from, to] = all[place] ?? []
        return from === module && to ? [{ from: to, isNeededFirst: link.includes('>>') }] : []
      })
    return orderModules('main', linksOf).map(
      ({ linkOrder, startOrder }) => `${linkOrder.join()}/${startOrder.join()}`,
    )
  }

  test.each([
    ['main', ['main/main']],
    ['main>a', ['a/a', 'main/main']],
    ['main>a a>b main>b', ['b/b', 'a/a', 'main/main']],
    ['main>a main>b', ['a/a', 'b/b', 'main/main']],
    ['other>main main>a', ['a/a', 'main/main']],
    ['main>a a>b b>a', ['b,a/b,a', 'main/main']],
    ['main>a a>>b b>a', ['b,a/b,a', 'main/main']],
    ['main>a a>b b>>a', ['a,b/b,a', 'main/main']],
    ['main>>a a>>main', ['a,main/a,main']],
    ['main>a a>a', ['a/a', 'main/main']],
    ['main>a a>b b>c c>a main>d d>c', ['c,b,a/c,b,a', 'd/d', 'main/main']],
  ])('%s', (links, expected) => {
    expect(order(links)).toEqual(expected)
  })
})
