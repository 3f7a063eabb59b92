import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readModule } from '../../src/module/module.ts'

/* Functions at the limits, optimised by V8 in a process of their own. */

const SCRIPT = fileURLToPath(new URL('../../scripts/compile-cost.mjs', import.meta.url))

const run = (...words: string[]) =>
  execFileSync(process.execPath, [SCRIPT, ...words], { maxBuffer: 16_000_000 })

test.each([
  'optimisingBytes: calls',
  'optimisingBytes: joined conditions',
  'optimisingBytes: ifs that leave a block',
  'optimisingBytes: ifs',
  'callValues',
])('the compiler takes no more than 512 MiB for a function at its limit (%s)', (name) => {
  const { figures } = readModule(run('--module', name), {}, name)
  expect(figures.optimisingBytes).toBeGreaterThan(400_000_000)
  const [, mebibytes = 0] = run('--optimise', name).toString().split(' ').map(Number)
  expect(mebibytes).toBeGreaterThan(5) // it was compiled
  expect(mebibytes).toBeLessThan(512)
})
