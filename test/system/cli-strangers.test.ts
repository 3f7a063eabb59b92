import { execFile } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder } from '../../src/platform/make-folder.ts'
import { CLI, run } from '../support/cli.ts'
import { file, guest } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { listen } from '../support/serve.ts'

/* What people who see the command for the first time have stumbled over. */

const STACK = /^\s+at |this is a bug/m

test.runIf(process.platform === 'linux')(
  'a folder that cannot be made does not hold the start up',
  async () => {
    const writer = file('writer.wasm', kvGuest('set'))
    const store = await run([writer, '0', '--store', 'lmdb:/proc/nowhere/x'])
    expect(store.code).toBe(1)
    expect(store.stderr).toContain('/proc/nowhere')
    expect(store.stderr).not.toMatch(STACK)
    const state = await run([guest('echo'), '0', '--admin', '127.0.0.1:0', '--state', '/proc/nowhere/x'])
    expect(state).toMatchObject({ code: 1, stderr: expect.stringContaining('/proc/nowhere') })
    expect(() => makeFolder('/proc/nowhere/a/b')).toThrow('ENOENT')
  },
)

test('folders are made with those around them, and one that is there is left', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-folders-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  makeFolder(join(folder, 'a/b'))
  makeFolder(join(folder, 'a/b'))
  writeFileSync(join(folder, 'file'), '')
  expect(() => makeFolder(join(folder, 'file'))).toThrow('EEXIST')
  expect(() => makeFolder(join(folder, 'file/a'))).toThrow('ENOTDIR')
})

test.runIf(process.platform === 'linux').each([
  ['call', guest('echo'), '--input', 'hi'],
  ['inspect', guest('echo')],
  ['check', guest('echo')],
])('an output that cannot be written ends %s with 1', async (...args) => {
  const full = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(full))
  const words = [CLI, ...args].map((word) => `'${word}'`).join(' ')
  const shell = promisify(execFile)('sh', ['-c', `'${process.execPath}' ${words} > /dev/full`])
  await expect(shell).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the output cannot be written'),
  })
})

test.each([
  ['help'],
  ['help', 'flags'],
  ['inspect', guest('echo')],
])('who stops reading what %s prints is no failure', async (...args) => {
  const words = [CLI, ...args].map((word) => `'${word}'`).join(' ')
  const { stderr } = await promisify(execFile)('sh', ['-c', `'${process.execPath}' ${words} | head -1`])
  expect(stderr).toBe('')
})

test('a start that takes too long is told once, with the flag that allows more', async () => {
  const { code, stderr } = await run([
    guest('start-loop'),
    '0',
    '--workers',
    '1',
    '--start-timeout-ms',
    '300',
  ])
  expect(code).toBe(1)
  expect(stderr).toMatch(
    /^wasm-serve: .*had not started after 300 ms \(--start-timeout-ms\) \(WASM_SERVE_INSTANCE_START_FAILED\)\n$/,
  )
})

test('check ends a start that does not return, and says so', async () => {
  const { code, stderr } = await run(['check', guest('start-loop'), '--start-timeout-ms', '300'])
  expect(code).toBe(2)
  expect(stderr).toContain('had not started after 300 ms')
})

test('who sends too much is told how much is allowed', async () => {
  const { url } = await listen({ plugin: guest('echo'), bodyLimit: 5 })
  const detail = expect.stringContaining('5 bytes')
  const answer = await fetch(url, { method: 'POST', body: 'too much' })
  expect(await answer.json()).toMatchObject({ status: 413, detail })
})

test.each([
  [[guest('echo'), 'wasm-serve.yaml'], /-c wasm-serve\.yaml/],
  [['conf/x.toml', '0'], /conf\/x\.toml is not a plug-in.* YAML/],
  [['chek', 'a.wasm'], /did you mean "check"/],
  [['inspekt'], /did you mean "inspect"/],
  [[guest('echo'), '--port', '70000'], /--port: must be from 0 to 65535/],
  [[guest('echo'), '--workers', '-1'], /from 0 to 256/],
  [[guest('echo'), '--recycle', '0'], /--recycle: must be 1 or more/],
  [
    [guest('echo'), '--isolation', 'fresh', '--recycle', '5'],
    /--recycle: has no effect with isolation fresh/,
  ],
])('%j is told what is meant', async (args, said) => {
  const { code, stderr } = await run(args)
  expect(code).toBe(2)
  expect(stderr).toMatch(said)
  expect(stderr).not.toMatch(STACK)
})

test.each([
  [['call', guest('echo'), '--input-file', '/nowhere'], 2, 'there is no such file'],
  [['call', guest('echo'), '--input-file', tmpdir()], 2, 'it is a directory'],
  [[guest('echo'), '0', '--host', 'nosuch.invalid'], 1, 'this name does not resolve'],
])('%j is told why not, in words', async (args, exitCode, said) => {
  const { code, stderr } = await run(args)
  expect(code).toBe(exitCode)
  expect(stderr).toContain(said)
  expect(stderr).not.toMatch(/ENOENT|EISDIR|ENOTFOUND/)
})
