import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url))

test('ticks stay cheap when V8 collects', async () => {
  const kept = await tickNs(file('../lib/tick-shape.js'))
  // 30 and 200 ns on a machine of 2026. If this fails because Node has cured it, the module can go.
  expect(await tickNs()).toBeGreaterThan(2 * kept)
})

async function tickNs(...modules: string[]): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--expose-gc',
    file('support/ticks.mjs'),
    ...modules,
  ])
  return Number(stdout)
}
