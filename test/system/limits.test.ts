import { expect, test } from 'vitest'
import { type Running, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'

/** Runs the command where the process has a limit of the system. */
function startWith(limit: string, ...args: string[]): Running {
  const limited = `ulimit ${limit} && exec "$@"`
  return start([guest('echo'), '0', ...args], {}, { program: ['sh', '-c', limited, 'sh', process.execPath] })
}

test.each([
  ['to load the command', 21, []], // with fewer, Node.js cannot load the first file; with more, it starts
  ['for its threads', 60, ['--workers', '20']],
])('too few open files %s are said, and are no bug and no mistake', async (_what, files, args) => {
  const { code, stderr } = await startWith(`-n ${files}`, ...args).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining(`may have ${files} (ulimit -n`)])
  expect(stderr).not.toContain('this is a bug')
})

test.each([
  ['inline', []],
  ['in threads', ['--workers', '1']],
  ['with the SDK', ['--runtime', 'sdk']],
])('too few addresses for the memories of guests %s are said, with the remedy', async (_what, args) => {
  const { code, stderr } = await startWith(`-v ${8 * 2 ** 20}`, ...args).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining('ulimit -v')])
  expect(stderr).toContain('MemoryMax=')
})
