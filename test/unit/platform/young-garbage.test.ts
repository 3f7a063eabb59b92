import { runInNewContext } from 'node:vm'
import { expect, test, vi } from 'vitest'

test('code of this process gets no function of V8 that collects garbage, after a body had some collected', async () => {
  vi.resetModules()
  const { countReadBytes } = await import('../../../src/platform/node-workarounds.ts')
  countReadBytes(2 ** 30, 'body')
  expect(runInNewContext('typeof gc')).toBe('undefined')
})
