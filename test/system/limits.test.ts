import { expect, test } from 'vitest'
import { type Running, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

/** Runs the command where the process may have so many files open. */
function startWith(files: number, ...args: string[]): Running {
  const limited = `ulimit -n ${files} && exec "$@"`
  return start([guest('echo'), '0', ...args], {}, { program: ['sh', '-c', limited, 'sh', process.execPath] })
}

test.each([
  ['to load the command', 21, []], // with fewer, Node.js cannot load the first file; with more, it starts
  ['for its threads', 60, ['--workers', '20']],
])('too few open files %s are said, and are no bug and no mistake', async (_what, files, args) => {
  const { code, stderr } = await startWith(files, ...args).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining(`may have ${files} (ulimit -n`)])
  expect(stderr).not.toContain('this is a bug')
})
