import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findLanguage } from '../../../src/cli/new/languages.ts'
import { makeProject } from '../../../src/cli/new/project.ts'

/** Makes a project named greeter. @returns its folder. */
function make(word: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const language = findLanguage(word)
  if (!language) throw new Error(word)
  const before = process.cwd()
  process.chdir(folder)
  try {
    makeProject({ language, purpose: 'hello', name: 'greeter' })
  } finally {
    process.chdir(before)
  }
  return join(folder, 'greeter')
}

test('a project in Rust has a script that builds the plug-in of its name', () => {
  const folder = make('rust')
  const modes = ['build.sh', 'Cargo.toml'].map((name) => statSync(join(folder, name)).mode & 0o111)
  expect(modes).toEqual([expect.any(Number), 0])
  expect(modes[0]).toBeGreaterThan(0)
  expect(readFileSync(join(folder, 'build.sh'), 'utf8')).toContain('release/greeter.wasm')
  expect(readFileSync(join(folder, 'Cargo.toml'), 'utf8')).toContain('name = "greeter"')
  expect(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))).toMatchObject({
    name: 'greeter',
    private: true,
    type: 'module',
    scripts: { build: 'bash build.sh' },
  })
})

test('a project in TypeScript is served without a build', () => {
  const folder = make('typescript')
  expect(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))).toMatchObject({
    scripts: { dev: 'wasm-serve dev', build: 'wasm-serve build greeter.ts' },
  })
  expect(readFileSync(join(folder, 'wasm-serve.yaml'), 'utf8')).toContain('plugin: greeter.ts')
})
