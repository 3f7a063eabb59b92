import { expect, test } from 'vitest'
import { run } from '../support/cli.ts'

test.each([
  ['no shell', []],
  ['a shell that it does not know', ['tcsh']],
  ['two shells', ['bash', 'zsh']],
])('%s ends with a message and exit 2', async (_, args) => {
  const { code, stdout, stderr } = await run(['completion', ...args])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('bash, zsh or fish')
})

test('fish has names of flags without their hyphens, with their values', async () => {
  const { stdout } = await run(['completion', 'fish'])
  const lines = stdout.split('\n')
  expect(lines).toContain('complete -c wasm-serve -l port -x')
  expect(lines).toContain('complete -c wasm-serve -s c -x')
  expect(lines).toContain("complete -c wasm-serve -l engine -x -a 'inline workers subprocess'")
})
