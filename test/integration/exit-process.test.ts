import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'

test('a process that is ended without waiting for its threads has the exit code', () => {
  const program = `import { exitProcess } from './src/platform/node-workarounds.ts'\nexitProcess(3)`
  const args = ['--import', 'tsx', '--no-warnings', '--input-type=module', '--eval', program]
  const { status, signal } = spawnSync(process.execPath, args)
  expect([status, signal]).toEqual([3, null])
})
