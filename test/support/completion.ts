import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll } from 'vitest'
import { CLI } from './cli.ts'
import { guestBytes } from './guest.ts'

/** A folder with plug-ins and other files, and the variables with which a shell finds the command. */
export function completionFolder(): { readonly cwd: string; readonly env: NodeJS.ProcessEnv } {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-completion-'))
  afterAll(() => rmSync(cwd, { recursive: true, force: true }))
  mkdirSync(join(cwd, 'bin'))
  symlinkSync(CLI, join(cwd, 'bin/wasm-serve'))
  writeFileSync(join(cwd, 'several.wasm'), guestBytes('several'))
  writeFileSync(join(cwd, 'with space.wasm'), guestBytes('echo'))
  const evil = '(module (func (export "$(touch pwned)")) (func (export "`touch pwned`")))'
  writeFileSync(join(cwd, 'evil.wasm'), guestBytes(evil))
  writeFileSync(join(cwd, 'notes.txt'), '')
  const { npm_config_user_agent: _, ...inherited } = process.env
  return { cwd, env: { ...inherited, HOME: cwd, PATH: `${join(cwd, 'bin')}${delimiter}${inherited.PATH}` } }
}

/** Cases for each shell: the words, of which the last is incomplete, and its completion. */
export const COMPLETIONS: readonly (readonly [words: readonly string[], completed: readonly string[]])[] = [
  [['insp'], ['inspect']],
  [['sev'], ['several.wasm']],
  [['store', 'ex'], ['export']],
  [['cache', 'pr'], ['prune']],
  [['--max-con'], ['--max-connections']],
  [['several.wasm', '--no-w'], ['--no-wasi']],
  [
    ['several.wasm', '--runtime', ''],
    ['kernel', 'sdk'],
  ],
  [['several.wasm', '--log-level', 'w'], ['warn']],
  [
    ['several.wasm', ''],
    ['alpha', 'b:ta', 'long', 'several'],
  ],
  [['call', 'several.wasm', 'al'], ['alpha']],
  [
    ['evil.wasm', ''],
    ['$(touch pwned)', '`touch pwned`'],
  ],
  [['--port', '80', 'call.wasm', '--host', ''], []],
  [['--memory-max', '16MiB', 'several.wasm', 'al'], ['alpha']],
  [['several.wasm', 'alpha', ''], []],
  [['call', 'several.wasm', '--input-file', 'no'], ['notes.txt']],
  [['bench', 'several.wasm', '--conn'], ['--connections']],
  [
    ['completion', ''],
    ['bash', 'fish', 'zsh'],
  ],
  [['help', 'fla'], ['flags']],
  [['new', 'as'], ['assemblyscript']],
  [['new', 'rust', ''], []],
]
