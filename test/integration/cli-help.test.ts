import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { COMMANDS } from '../../src/cli/cli.ts'
import { flags } from '../../src/options/flags.ts'
import { run, start } from '../support/cli.ts'
import { guest, guestBytes } from '../support/guest.ts'

/** A terminal has 80 columns and 24 rows; one row is for the prompt. */
function expectFitsScreen(page: string): void {
  const lines = page.trimEnd().split('\n')
  expect(lines.filter((line) => line.length > 80)).toEqual([])
  expect(lines.length).toBeLessThan(24)
}

test.each([
  [['--help']],
  [['-h']],
  [['help']],
  [['serve', '--help']],
  [['help', 'serve']],
])('%j prints the first page, which fits a screen and names every command', async (args) => {
  const { code, stdout } = await run(args)
  expect(code).toBe(0)
  expectFitsScreen(stdout)
  for (const name of Object.keys(COMMANDS).filter((each) => each !== 'serve')) {
    expect(stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'))
  }
  expect(stdout).toContain('help flags')
})

test.each([
  'dev',
  'build',
  'check',
  'openapi',
  'mcp',
  'inspect',
  'call',
  'bench',
  'new',
  'init',
  'doctor',
  'push',
  'store',
  'cache',
  'fleet',
  'completion',
])('the page of %s fits a screen, has examples, and is found in two ways', async (name) => {
  const [asked, helped] = await Promise.all([run([name, '--help']), run(['help', name])])
  expect(asked.code).toBe(0)
  expectFitsScreen(asked.stdout)
  expect(asked.stdout).toMatch(new RegExp(`Examples:\n.*wasm-serve ${name} `))
  expect(helped.stdout).toBe(asked.stdout)
})

test.each([
  ...Object.keys(COMMANDS).map((name) => [name, '--help']),
  ['help', 'flags'],
])('no line of "%s %s" is longer than 80 columns', async (...words) => {
  const { stdout } = await run(words)
  expect(stdout.length).toBeGreaterThan(0)
  expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([])
})

test('help flags lists every flag', async () => {
  const { code, stdout } = await run(['help', 'flags'])
  expect(code).toBe(0)
  for (const { name } of flags) expect(stdout).toContain(`--${name}`)
  for (const name of ['--no-wasi', '--set-config', '--manifest', '--version']) expect(stdout).toContain(name)
})

test('a topic that there is not is answered with the nearest one and exit 2', async () => {
  const { code, stderr } = await run(['help', 'inspekt'])
  expect(code).toBe(2)
  expect(stderr).toContain('did you mean "inspect"')
})

test("a command's name as the first word wins over a file of that name, which can still be served", async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-names-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(join(cwd, 'inspect'), guestBytes('echo'))
  const { code, stderr } = await run(['inspect'], {}, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining('name a plug-in')])

  const url = await start(['./inspect', '0'], {}, { cwd }).listening()
  expect(await (await fetch(url, { method: 'POST', body: 'abc' })).text()).toBe('abc')
  expect((await run(['inspect', '--names', 'inspect'], {}, { cwd })).stdout).toBe('echo\n')
})

test('serve can be said, and is the same as leaving it out', async () => {
  const url = await start(['serve', guest('echo'), '0']).listening()
  expect(await (await fetch(url, { method: 'POST', body: 'abc' })).text()).toBe('abc')
})
