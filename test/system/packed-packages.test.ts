import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
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
async function loadedOf(...options: string[]): Promise<string[]> {
  const cli = join(modules, 'wasm-serve/dist/cli.js')
  const program: [string, ...string[]] = [process.execPath, ...options]
  const server = start(['hello.wasm', '--port', '0'], {}, { cwd: folder, program, cli })
  const response = await fetch(await server.listening(), { method: 'POST', body: 'Ada' })
  expect(await response.text()).toContain('Ada')
  server.kill('SIGTERM')
  const { stderr } = await server.ended
  return [...stderr.matchAll(/^loaded (.+)$/gm)].map(([, name = '']) => name)
}

test('the command has packages in one file, and uses those that are installed if a version differs or a module is preloaded', async () => {
  edit('fastify', 'fastify.js')
  expect(await loadedOf()).toEqual([])
  writeFileSync(join(folder, 'preloaded.cjs'), '')
  expect(await loadedOf('--require', './preloaded.cjs')).toEqual(['fastify'])
  edit('semver', 'index.js', '7.99.0')
  expect(await loadedOf()).toEqual(['fastify', 'semver'])
  edit('semver', 'index.js')
  expect(await loadedOf()).toEqual([])
  edit('fastify', 'fastify.js', '5.99.0')
  expect(await loadedOf()).toEqual(['fastify', 'semver'])
})
