import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/cli.ts'
import { COMPLETIONS, completionFolder } from '../support/completion.ts'

const { cwd, env } = completionFolder()

/** What bash offers for the last of these words, sorted. */
function complete(words: readonly string[]): string[] {
  const script = `
    source <(wasm-serve completion bash)
    COMP_WORDS=(wasm-serve "$@"); COMP_CWORD=$#
    _wasm_serve
    printf '%s\\n' "\${COMPREPLY[@]}"`
  const shell = spawnSync('bash', ['--norc', '-uc', script, 'bash', ...words], {
    cwd,
    env,
    encoding: 'utf8',
  })
  expect(shell.stderr).toBe('')
  return shell.stdout.split('\n').filter(Boolean).sort()
}

test.each(COMPLETIONS)('bash completes %j to %j', (words, completed) => {
  expect(complete(words)).toEqual(completed)
})

test('bash offers commands, plug-ins and folders as the first word, and no other files', () => {
  expect(complete([''])).toEqual(
    [...Object.keys(COMMANDS), 'bin', 'evil.wasm', 'several.wasm', 'with space.wasm'].sort(),
  )
})

test('what stands in the name of a function is not run', () => {
  expect(complete(['evil.wasm', ''])).toHaveLength(2)
  expect(existsSync(join(cwd, 'pwned'))).toBe(false)
})

test('a name with a space is one word', () => {
  expect(complete(['call', 'with'])).toEqual(['with space.wasm'])
  expect(complete(['call', 'with space.wasm', ''])).toEqual(['echo'])
})

test('bash takes a flag and its value apart at the equals sign', () => {
  expect(complete(['several.wasm', '--runtime', '=', ''])).toEqual(['kernel', 'sdk'])
  expect(complete(['several.wasm', '--runtime', '=', 'k'])).toEqual(['kernel'])
  expect(complete(['several.wasm', '--runtime', '='])).toEqual(['kernel', 'sdk'])
})

test('a plug-in that cannot be read has no functions to offer, and says nothing', () => {
  expect(complete(['notes.txt', ''])).toEqual([])
  expect(complete(['missing.wasm', ''])).toEqual([])
})
