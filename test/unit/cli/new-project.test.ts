import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findLanguage, LANGUAGE_NAMES, purposesOf } from '../../../src/cli/new/languages.ts'
import { makeProject } from '../../../src/cli/new/project.ts'
import type { Purpose } from '../../../src/cli/new/purposes.ts'

/** Makes a project named greeter. @returns its folder. */
function make(word: string, purpose: Purpose = 'hello'): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-new-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const language = findLanguage(word)
  if (!language) throw new Error(word)
  const before = process.cwd()
  process.chdir(folder)
  try {
    makeProject({ language, purpose, name: 'greeter' })
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

const PROJECTS = LANGUAGE_NAMES.flatMap((word) => {
  const language = findLanguage(word)
  return language ? purposesOf(language).map((purpose) => [word, purpose, language.title] as const) : []
})

test.each(PROJECTS)('a project in %s for %s has all of its files', (word, purpose, title) => {
  const folder = make(word, purpose)
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
  const texts = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'))
  expect(texts.filter((text) => text === '')).toEqual([])
  expect(texts.join('\n')).not.toContain('PLUGIN')
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain(title)
})
