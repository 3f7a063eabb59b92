import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { areInstalled } from '../../src/platform/packed-packages.ts'
import { start } from '../support/cli-process.ts'
import { ROOT, userPackage } from '../support/user-package.ts'

const folder = userPackage()
const modules = join(folder, 'node_modules')

/** Puts a copy of a package there, which says when it is loaded. */
function edit(name: string, entry: string, version?: string): void {
  rmSync(join(modules, name), { recursive: true })
  cpSync(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true })
  const [code, description] = [join(modules, name, entry), join(modules, name, 'package.json')]
  writeFileSync(code, `process.stderr.write('loaded ${name}\\n')\n${readFileSync(code, 'utf8')}`)
  if (version === undefined) return
  writeFileSync(description, JSON.stringify({ ...JSON.parse(readFileSync(description, 'utf8')), version }))
}

/** Serves a plug-in with the installed command. @returns the packages with an edit that it has loaded. */
async function loadedOf(
  environment: Readonly<Record<string, string>>,
  ...options: string[]
): Promise<string[]> {
  const cli = join(modules, 'wasm-serve/dist/cli.js')
  const program: [string, ...string[]] = [process.execPath, ...options]
  const server = start(['hello.wasm', '--port', '0'], environment, { cwd: folder, program, cli })
  const response = await fetch(await server.listening(), { method: 'POST', body: 'Ada' })
  expect(await response.text()).toContain('Ada')
  server.kill('SIGTERM')
  const { stderr } = await server.ended
  return [...stderr.matchAll(/^loaded (.+)$/gm)].map(([, name = '']) => name)
}

test('the command has packages in one file, and uses those that are installed if a version differs or a module is preloaded', async () => {
  edit('fastify', 'fastify.js')
  expect(await loadedOf({})).toEqual([])
  writeFileSync(join(folder, 'preloaded.cjs'), '')
  expect(await loadedOf({}, '--require', './preloaded.cjs')).toEqual(['fastify'])
  edit('semver', 'index.js', '7.99.0')
  expect(await loadedOf({})).toEqual(['fastify', 'semver'])
  edit('semver', 'index.js')
  expect(await loadedOf({})).toEqual([])
  edit('fastify', 'fastify.js', '5.99.0')
  expect(await loadedOf({})).toEqual(['fastify', 'semver'])
})

test.each([
  ['an option in quotes', ['NODE_OPTIONS', '"--require" ./preloaded.cjs']],
  ['an option with underscores', ['NODE_OPTIONS', '--experimental_loader=./loader.mjs']],
  ['a preload that hides its option', ['NODE_OPTIONS', '--require=./hiding.cjs']],
] as const)('packages are the installed ones beside %s', async (_what, [name, value]) => {
  edit('fastify', 'fastify.js')
  writeFileSync(join(folder, 'preloaded.cjs'), '')
  writeFileSync(join(folder, 'loader.mjs'), '')
  writeFileSync(join(folder, 'hiding.cjs'), 'delete process.env.NODE_OPTIONS')
  expect(await loadedOf({ [name]: value })).toContain('fastify')
})

test.each([
  '',
  '{',
  '\ufeff{}',
])('a description of a package with the text "%s" is that of no version', async (text) => {
  const root = mkdtempSync(join(tmpdir(), 'wasm-serve-packed-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  mkdirSync(join(root, 'node_modules/a'), { recursive: true })
  writeFileSync(join(root, 'node_modules/a/package.json'), text)
  const packages = [
    { name: 'root', version: '1.0.0', requires: [1] },
    { name: 'a', version: '1.0.0', requires: [] },
  ]
  expect(areInstalled(packages, root)).toBe(false)
})
