import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Sources of the plug-ins that the pages name. */
const PLUGINS = {
  'hello.wasm': 'plugins/hello/hello.wasm',
  'count.wasm': 'plugins/count-vowels-rust/count-vowels.wasm',
  'shop.wasm': 'plugins/http-assemblyscript/http.wasm',
  'prices.wasm': 'examples/shop.wasm',
}

/** Optional packages, as folders of `node_modules`. */
const OPTIONAL: ReadonlySet<string> = new Set(['lmdb', '@redis'])

/**
 * The folder of a user's package: wasm-serve as npm would install it, its dependencies, and the plug-ins of the pages.
 * Removed when the tests of the file have ended.
 */
export function userPackage(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-user-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const modules = join(folder, 'node_modules')
  mkdirSync(modules)
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!name.startsWith('.') && !OPTIONAL.has(name))
      symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  install(modules)
  for (const [name, path] of Object.entries(PLUGINS)) copyFileSync(join(ROOT, path), join(folder, name))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  return folder
}

/** Without its scripts: they would rebuild `dist`, which other tests are using. */
function install(modules: string): void {
  const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', modules]
  const tarball = execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }).trim()
  execFileSync('tar', ['-xzf', tarball], { cwd: modules })
  execFileSync('mv', ['package', 'wasm-serve'], { cwd: modules })
  rmSync(join(modules, tarball))
}
