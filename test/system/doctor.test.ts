import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { LANGUAGES } from '../../src/cli/new/languages.ts'
import { run } from '../support/cli-process.ts'

interface Finding {
  readonly kind: string
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

const examined = async (env: NodeJS.ProcessEnv = {}, program?: readonly [string, ...string[]]) => {
  const { code, stdout, stderr } = await run(['doctor', '--json'], env, program && { program })
  expect([code, stderr]).toEqual([0, ''])
  const { findings } = JSON.parse(stdout) as { findings: Finding[] }
  return (kind: string) => findings.filter((finding) => finding.kind === kind)
}

test('doctor has a line for each toolchain, package, limit and layer', async () => {
  const { code, stdout } = await run(['doctor'])
  expect(code).toBe(0)
  const lines = stdout.trimEnd().split('\n')
  for (const line of lines) expect(line).toMatch(/^ {2}(?:ok|missing) +\w+ +\S/)
  for (const name of Object.keys(LANGUAGES)) expect(stdout).toMatch(new RegExp(` toolchain +${name} `))
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const peers = Object.keys(JSON.parse(manifest).peerDependencies)
  const find = await examined()
  expect(find('package').map(({ name }) => name)).toEqual(peers)
  for (const { detail } of find('package')) expect(detail).not.toContain('an option')
  expect(find('package').every(({ ok }) => ok)).toBe(true)
  expect(find('node')[0]?.detail).toContain(process.version)
  expect(find('subprocess').length).toBe(6)
})

test('a missing toolchain is said, with what to do', async () => {
  const find = await examined({ PATH: '/nowhere', ZIG: `${process.execPath} -e 0` })
  const states = find('toolchain').map(({ name, ok }) => [name, ok])
  expect(states).toEqual(Object.keys(LANGUAGES).map((name) => [name, name === 'zig']))
  expect(find('toolchain')[0]?.detail).toBe(`cargo: ${LANGUAGES.rust.toolchain.get}`)
})

test('a low limit of open files is said', async () => {
  const find = await examined({}, ['bash', '-c', 'ulimit -n 512; exec "$0" "$@"', process.execPath])
  expect(find('limit')).toEqual([
    { kind: 'limit', name: 'open files', ok: false, detail: expect.stringMatching(/^512: raise it/) },
  ])
})

test('a cache folder that a group may write to is said', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'wasm-serve-doctor-'))
  onTestFinished(() => rmSync(parent, { recursive: true }))
  const folder = join(parent, 'wasm-serve')
  mkdirSync(folder)
  chmodSync(folder, 0o775)
  const cache = async () => (await examined({ XDG_CACHE_HOME: parent }))('cache')
  expect(await cache()).toEqual([
    {
      kind: 'cache',
      name: 'cache folder',
      ok: false,
      detail: expect.stringMatching(/without it: .*mode 775.*chmod/),
    },
  ])
  chmodSync(folder, 0o700)
  expect(await cache()).toEqual([{ kind: 'cache', name: 'cache folder', ok: true, detail: folder }])
})

test.each([
  ['20.18.3', false],
  ['20.19.0', true],
  ['22.11.0', false],
  ['22.12.0', true],
  ['24.0.0', true],
])('Node.js %s is enough: %s', async (node, ok) => {
  const versions = `{ ...process.versions, node: '${node}' }`
  const code = `Object.defineProperty(process, 'versions', { value: ${versions} })`
  const find = await examined({}, [
    process.execPath,
    '--import',
    `data:text/javascript,${encodeURIComponent(code)}`,
  ])
  expect(find('node')[0]?.ok).toBe(ok)
})

test('a word too many is a mistake', async () => {
  expect(await run(['doctor', 'me'])).toMatchObject({ code: 2, stdout: '' })
})
