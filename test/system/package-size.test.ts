import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../support/user-package.ts'

/** What a user installs: `.ci/run` measures it, 15 MiB at most. A part is left for newer versions of the dependencies. */
const MAX_BYTES = 14.75 * 1024 * 1024
const MAX_PACKAGES = 60

/** An entry of `package-lock.json`. */
interface Locked {
  readonly dev?: true
  readonly optional?: true
  readonly devOptional?: true
  readonly peer?: true
}

test('the installed package, with its dependencies, is small', () => {
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const [packed] = JSON.parse(execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }))
  const sizes: Record<string, number> = { 'wasm-serve': packed.unpackedSize }
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  for (const [path, { dev, optional, devOptional, peer }] of Object.entries<Locked>(packages))
    if (path !== '' && !(dev ?? optional ?? devOptional ?? peer)) sizes[path] = sizeOf(join(ROOT, path))
  const bytes = Object.values(sizes).reduce((sum, each) => sum + each)
  expect(Object.keys(sizes).length).toBeLessThanOrEqual(MAX_PACKAGES)
  expect(bytes, JSON.stringify(sizes, null, 2)).toBeLessThanOrEqual(MAX_BYTES)
  expect(sizes['node_modules/fastify']).toBeGreaterThan(0)
})

test('the package has the files that operators copy', () => {
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const [packed] = JSON.parse(execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }))
  const paths = packed.files.map(({ path }: { path: string }) => path)
  const page = readFileSync(join(ROOT, 'docs/operate/deploy.md'), 'utf8')
  const copied = [...page.matchAll(/^cp \S*node_modules\/wasm-serve\/(\S+)/gm)].map(([, path]) => path)
  expect(copied).toHaveLength(3)
  const others = ['prometheus/scrape.yaml', 'prometheus/alerts.yaml']
  expect(paths).toEqual(expect.arrayContaining([...copied, ...others.map((path) => `deploy/${path}`)]))
})

/** Bytes of the files in a folder, other packages apart. */
function sizeOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== 'node_modules')
    .map((entry) => join(folder, entry.name))
    .reduce((sum, path) => sum + (statSync(path).isDirectory() ? sizeOf(path) : statSync(path).size), 0)
}
