import { readFileSync } from 'node:fs'
import Module from 'node:module'
import { expect, onTestFinished, test, vi } from 'vitest'
import { run } from '../../support/cli.ts'

interface Finding {
  readonly kind: string
  readonly name: string
  readonly detail: string
}

test('doctor says what each optional package is for', async () => {
  const { stdout } = await run(['doctor', '--json'], { PATH: '/nowhere' })
  const found: readonly Finding[] = JSON.parse(stdout).findings
  const packages = found.filter(({ kind }) => kind === 'package')
  const { peerDependencies } = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  )
  expect(packages.map(({ name }) => name).sort()).toEqual(Object.keys(peerDependencies).sort())
  for (const { name, detail } of packages) {
    expect([name, detail]).toEqual([name, expect.stringMatching(/(?:^|, )for \S/)])
    expect([name, detail]).toEqual([name, expect.not.stringContaining('for an option')])
  }
})

test('a package that is missing is said, with what installs it; one that can only be imported is there', async () => {
  const resolver = Module as object as { _resolveFilename(name: string, ...more: unknown[]): string }
  const original = resolver._resolveFilename
  const resolve = vi.spyOn(resolver, '_resolveFilename').mockImplementation((name, ...more) => {
    const code = { jose: 'MODULE_NOT_FOUND', lmdb: 'ERR_PACKAGE_PATH_NOT_EXPORTED' }[name]
    if (code !== undefined) throw Object.assign(new Error(), { code })
    return original(name, ...more)
  })
  onTestFinished(() => resolve.mockRestore())
  const { stdout } = await run(['doctor', '--json'], { PATH: '/nowhere' })
  const found: readonly (Finding & { readonly ok: boolean })[] = JSON.parse(stdout).findings
  expect(found.filter(({ kind, ok }) => kind === 'package' && !ok)).toEqual([
    { kind: 'package', name: 'jose', ok: false, detail: 'npm install jose, for jwt' },
  ])
})

const TYPESCRIPT = '; 22.13 has TypeScript without esbuild'
const WAITING = '; 24.0 has guests that wait without a thread, and slices of long calls'
const GET = ': https://nodejs.org'

test.each([
  ['20.18.9', false, `${TYPESCRIPT}${WAITING}${GET}`],
  ['20.19.0', true, `${TYPESCRIPT}${WAITING}${GET}`],
  ['22.12.0', true, `${TYPESCRIPT}${WAITING}${GET}`],
  ['22.13.0', true, `${WAITING}${GET}`],
  ['24.0.0', true, ''],
])('doctor says of Node.js %s whether it is enough, and what later versions have', async (version, ok, more) => {
  onTestFinished(() => void vi.unstubAllGlobals())
  const versions = { value: { ...process.versions, node: version } }
  vi.stubGlobal('process', Object.create(process, { versions, version: { value: `v${version}` } }))
  const { stdout } = await run(['doctor', '--json'], { PATH: '/nowhere' })
  const found: readonly Finding[] = JSON.parse(stdout).findings
  expect(found.filter(({ kind }) => kind === 'node')).toEqual([
    { kind: 'node', name: 'Node.js', ok, detail: `v${version}${more}` },
  ])
})
