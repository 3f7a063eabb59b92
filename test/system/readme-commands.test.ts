import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { CLI, run } from '../support/cli.ts'
import { pluginFile } from '../support/pdk.ts'

/** A folder that has what the examples name, and the command. */
const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-examples-'))
afterAll(() => rmSync(cwd, { recursive: true, force: true }))
mkdirSync(join(cwd, 'bin'))
symlinkSync(CLI, join(cwd, 'bin/wasm-serve'))
copyFileSync(pluginFile('hello', 'hello.wasm'), join(cwd, 'hello.wasm'))
writeFileSync(join(cwd, 'manifest.json'), JSON.stringify({ wasm: [{ path: 'hello.wasm' }] }))
writeFileSync(join(cwd, 'name.txt'), 'Bob')
beforeAll(async () => {
  const store = await openLmdbStore({ folder: join(cwd, 'state') })
  await store.set('visits', 'Bob', Uint8Array.of(1))
  await store.close()
})

/** What takes seconds there is shown here in parts of one. */
function shortly(line: string): string {
  return line.replace(/(wasm-serve bench .*)-d \d+/, '$1-d 0.2')
}

function shell(line: string) {
  const env = { ...process.env, PATH: `${join(cwd, 'bin')}${delimiter}${process.env.PATH}` }
  const { status, stdout, stderr } = spawnSync('bash', ['-c', shortly(line)], { cwd, env, encoding: 'utf8' })
  return { status, stdout, stderr }
}

/** The lines of the README's section that are shown as to be typed. */
function readmeLines(): string[] {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const section = /^## Other commands\n([\s\S]*?)^## /m.exec(readme)?.[1] ?? ''
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
  return blocks.join('').split('\n').filter(Boolean)
}

test.each(readmeLines())('the README says: %s', (line) => {
  const { status, stderr } = shell(line)
  expect([status, stderr.includes('wasm-serve: ')]).toEqual([0, false])
}, 120_000)

test('there are such lines', () => {
  expect(readmeLines().length).toBeGreaterThan(8)
})

test.each([
  'inspect',
  'call',
  'bench',
  'new',
  'store',
  'completion',
])('the examples of the page of %s work', async (name) => {
  const { stdout } = await run(['help', name])
  const examples = /Examples:\n((?: {2}.*\n)+)/.exec(stdout)?.[1] ?? ''
  // Those for other shells run there, in the system tests.
  const lines = examples.split('\n').map((line) => line.trim())
  const here = lines.filter((line) => line !== '' && !/zsh|fish/.test(line))
  expect(here.length).toBeGreaterThan(0)
  const known = readmeLines()
  for (const line of here.filter((each) => !known.includes(each)))
    expect([line, shell(line).status]).toEqual([line, 0])
})

test('the example of call prints what it should', () => {
  expect(shell("wasm-serve call hello.wasm --input '😄 Bob Morane'").stdout).toBe(
    '{"message":"🦀 Hello 😄 Bob Morane"}',
  )
})
