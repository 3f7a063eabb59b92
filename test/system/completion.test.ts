import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { COMPLETIONS, completionFolder } from '../support/completion.ts'
import { describeWith } from '../support/tools.ts'

const { cwd, env } = completionFolder()

function shell(program: string, args: readonly string[]): string[] {
  const { stdout, stderr, error } = spawnSync(program, args, { cwd, env, encoding: 'utf8' })
  expect([error, stderr]).toEqual([undefined, ''])
  return stdout.split('\n').filter(Boolean).sort()
}

afterEach(() => expect(existsSync(join(cwd, 'pwned')), 'a name was run').toBe(false))

describeWith(['fish'], () => {
  test.each(COMPLETIONS)('fish completes %j to %j', (words, completed) => {
    const script = 'wasm-serve completion fish | source; complete -C "$argv"'
    const line = ['wasm-serve', ...words].join(' ')
    const offered = shell('fish', ['--no-config', '-c', script, '--', line])
    // A description follows a tab.
    expect(offered.map((each) => each.split('\t')[0])).toEqual(completed)
  })
})

describeWith(['zsh'], () => {
  test.each(COMPLETIONS)('zsh completes %j to %j', (words, completed) => {
    // Outside of its line editor zsh offers nothing: what does it there is replaced by what prints.
    const script = `
    compdef() { : }
    compadd() { shift; print -l -- "\${(M)@:#$words[CURRENT]*}" }
    _files() { [[ $1 == -g ]] && print -l -- $words[CURRENT]*.wasm(N) || print -l -- $words[CURRENT]*(N) }
    source <(wasm-serve completion zsh)
    words=(wasm-serve "$@") CURRENT=$(($# + 1))
    _wasm_serve`
    expect(shell('zsh', ['-f', '-c', script, 'zsh', ...words])).toEqual(completed)
  })
})
