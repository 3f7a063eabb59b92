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
