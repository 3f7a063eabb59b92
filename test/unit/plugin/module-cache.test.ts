import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { loadModule, type ModuleJob } from '../../../src/plugin/load-module.ts'
import { cachedModuleFile, cacheModule, loadCachedModule } from '../../../src/plugin/module-cache.ts'
import { guestBytes } from '../../support/guest.ts'
import { newFolder } from '../../support/stores.ts'

const JOB: ModuleJob = {
  name: 'test',
  memoryMax: 100,
  needsModule: true,
  resettable: 'yes',
  kernelMemory: 'own',
}

const names = readdirSync(new URL('../../guests', import.meta.url)).filter((name) => name.endsWith('.wat'))

const inNewFolder = () => join(newFolder(), 'modules', '0', 'one')

test.each(names)('a module that was kept is what it is when it is loaded: %s', async (name) => {
  const loaded = await loadModule(guestBytes(name.replace(/\.wat$/, '')), JOB)
  const file = inNewFolder()
  await cacheModule(file, loaded)
  for (const isServing of [true, false]) {
    const kept = await loadCachedModule(file, isServing)
    expect({ ...kept, module: 0, fewExports: 0, resettable: 0 }).toEqual({
      ...{ ...loaded, module: 0, fewExports: 0, resettable: 0 },
      checked: undefined,
    })
    for (const form of ['module', 'fewExports'] as const)
      expect(surfaceOf(kept?.[form])).toEqual(surfaceOf(loaded[form]))
    expect({ ...kept?.resettable, module: surfaceOf(kept?.resettable?.module) }).toEqual({
      ...loaded.resettable,
      module: surfaceOf(loaded.resettable?.module),
    })
  }
})

function surfaceOf(module: WebAssembly.Module | undefined) {
  return module && [WebAssembly.Module.imports(module), WebAssembly.Module.exports(module)]
}

test('nothing is kept before, and nothing of a module that was not compiled', async () => {
  const file = inNewFolder()
  expect(await loadCachedModule(file, false)).toBeUndefined()
  await cacheModule(file, await loadModule(guestBytes('echo'), { ...JOB, needsModule: false }))
  expect(existsSync(file)).toBe(false)
})

test('what is kept and damaged is not used', async () => {
  const file = inNewFolder()
  await cacheModule(file, await loadModule(guestBytes('echo'), JOB))
  const whole = readFileSync(file)
  const damaged = fc.oneof(
    fc.nat(whole.length - 1).map((length) => whole.subarray(0, length)),
    fc.tuple(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 })).map(([at, bits]) => {
      const copy = Buffer.from(whole)
      copy[at] = (copy[at] ?? 0) ^ bits
      return copy
    }),
    fc.uint8Array(),
  )
  await fc.assert(
    fc.asyncProperty(damaged, async (bytes) => {
      writeFileSync(file, bytes)
      expect(await loadCachedModule(file, false)).toBeUndefined()
    }),
  )
})

test('types that the process does not admit are not compiled', async () => {
  const file = inNewFolder()
  await cacheModule(file, await loadModule(guestBytes('echo'), JOB))
  const admit = () => Promise.reject(new Error('no room'))
  await expect(loadCachedModule(file, false, admit)).rejects.toThrow('no room')
})

test.runIf(process.getuid)('a folder to which others can write is neither read nor written', async () => {
  const file = inNewFolder()
  const loaded = await loadModule(guestBytes('echo'), JOB)
  await cacheModule(file, loaded)
  chmodSync(dirname(file), 0o777)
  expect(await loadCachedModule(file, false)).toBeUndefined()
  await cacheModule(`${file}2`, loaded)
  expect(existsSync(`${file}2`)).toBe(false)
})

test('what was not used for the longest time is removed when there is too much', async () => {
  const file = inNewFolder()
  const loaded = await loadModule(guestBytes('echo'), JOB)
  await cacheModule(file, loaded)
  const old = (days: number) => new Date(Date.now() - days * 86_400_000)
  const other = (name: string, bytes: number, days: number) => {
    writeFileSync(join(dirname(file), name), Buffer.alloc(bytes))
    utimesSync(join(dirname(file), name), old(days), old(days))
  }
  other('large', 30 * 2 ** 20, 2)
  other('older', 4 * 2 ** 20, 3)
  utimesSync(file, old(4), old(4))
  await loadCachedModule(file, false) // marks it as used
  await expect.poll(() => statSync(file).mtimeMs).toBeGreaterThan(old(1).getTime())
  await cacheModule(`${file}2`, loaded)
  expect(readdirSync(dirname(file)).sort()).toEqual(['large', 'one', 'one2'])
})

test('small modules are not kept, and none while the package runs from its sources', () => {
  expect(cachedModuleFile('/cache', 'ab', 100, JOB)).toBeUndefined()
  expect(cachedModuleFile('/cache', 'ab', 1_000_000, JOB)).toBeUndefined()
})
