import { isAscii } from 'node:buffer'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { CLI, run, start } from '../support/cli-process.ts'
import { file, guest, guestBytes } from '../support/guest.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const QUICK = ['-c', '4', '-d', '0.3']

/** Answers with "a" until it was called 300 times; then `after` runs. */
function changing(after: string): string {
  const text = `(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (global $calls (mut i32) (i32.const 0))
    (func (export "change") (result i32)
      (local $at i64)
      (local.set $at (call $alloc (i64.const 1)))
      (call $store_u8 (local.get $at) (i32.const 97))
      (call $output_set (local.get $at) (i64.const 1))
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (if (i32.gt_u (global.get $calls) (i32.const 300)) (then ${after}))
      (i32.const 0)))`
  return file('change.wasm', guestBytes(text))
}

test('it measures a plug-in, and says what it compared', async () => {
  const { code, stdout, stderr } = await run(['bench', guest('echo'), '-i', 'abc', ...QUICK])
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('echo echo: 4 connections, 0.3 s, Node v')
  expect(stdout).toMatch(/requests\/s +\d+\n +CPU per request +\d+\.\d us/)
  for (const name of ['p50', 'p90', 'p99', 'p99.9'])
    expect(stdout).toMatch(new RegExp(`${name} +\\d+\\.\\d+ ms`))
  expect(stdout).toMatch(/responses +\d+, none wrong, none failed/)
  expect(stdout).toContain('each body, byte for byte, with the first response (3 bytes)')
  expect(stdout).toMatch(/ms {2}#+ +\d+$/m)
  expect(stdout).not.toContain('\x1b')
  expect(isAscii(Buffer.from(stdout))).toBe(true)
})

test('as JSON it tells the same as data', async () => {
  const { code, stdout } = await run(['bench', guest('several'), 'alpha', ...QUICK, '--json'])
  expect(code).toBe(0)
  const result = JSON.parse(stdout)
  expect(result).toMatchObject({ node: process.version, connections: 4, wrong: 0, failed: 0, errors: 0 })
  expect(result.answered).toBeGreaterThan(100)
  expect(result.sent).toBeGreaterThanOrEqual(result.answered)
  expect(result.cpuMicrosPerRequest).toBeGreaterThan(1)
  const { p50, p90, p99, ...rest } = result.latencyMs
  expect(p50).toBeGreaterThan(0)
  expect([p50, p90, p99, rest['p99.9']]).toEqual([p50, p90, p99, rest['p99.9']].toSorted((a, b) => a - b))
})

test('of a guest that answers differently each time only the status is compared, and that is said', async () => {
  const { code, stdout } = await run(['bench', guest('count'), 'count', ...QUICK])
  expect(code).toBe(0)
  expect(stdout).toContain('the status only: 9 of 10 responses to the same input differ from the first')
})

test.each([
  ['wrong', '(call $store_u8 (local.get $at) (i32.const 98))', /\d+ wrong bodies/],
  ['failures', '(return (i32.const 1))', /\d+ failed/],
])('answers that are %s under load end it with 1', async (_, after, said) => {
  const { code, stdout, stderr } = await run(['bench', changing(after), ...QUICK])
  expect(code).toBe(1)
  expect(stdout).toMatch(said)
  expect(stderr).toMatch(/^wasm-serve: Not all responses were correct/)
})

test('the matrix compares runtimes, isolations and threads, and says what could not be measured', async () => {
  const { code, stdout, stderr } = await run([
    'bench',
    guest('echo'),
    ...QUICK,
    '--matrix',
    '--json',
    '--env',
    'A=b',
  ])
  expect([code, stderr]).toEqual([0, ''])
  const { variants } = JSON.parse(stdout)
  for (const name of ['kernel', 'kernel, fresh instances', 'kernel, 1 worker', 'kernel, 2 workers'])
    expect(variants).toContainEqual(expect.objectContaining({ name, wrong: 0, failed: 0 }))
  expect(variants).toContainEqual({ name: 'sdk', problem: expect.stringContaining('environment variables') })
})

test.runIf(process.platform === 'linux')(
  'a terminal shows how far it is, and a histogram of blocks',
  async () => {
    const command = `"${process.execPath}" "${CLI}" bench "${guest('echo')}" ${QUICK.join(' ')}`
    const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    terminal.stdout.setEncoding('utf8').on('data', (text) => (output += text))
    const [code] = await once(terminal, 'close')
    expect(code).toBe(0)
    expect(output).toMatch(/\r█*░+ \d+% echo echo/)
    expect(output).toContain('\r\x1b[K')
    expect(output).toMatch(/ms {2}█+[▏▎▍▌▋▊▉]? +\d+/)
  },
)

test.runIf(process.platform === 'linux')('the server does not outlive a bench that is killed', async () => {
  const bench = start(['bench', guest('echo'), '-c', '1', '-d', '60'])
  const children = () => {
    const { pid } = bench.child
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  }
  while (children() === '') await sleep(10)
  const server = children()
  expect(server).toMatch(/^\d+$/)
  bench.child.kill('SIGKILL')
  await bench.ended
  onTestFinished(() => {
    if (isRunning(server)) process.kill(Number(server), 'SIGKILL')
  })
  while (isRunning(server)) await sleep(10)
})

/** A process that has ended may still be listed, as a zombie, until its parent has looked. */
function isRunning(pid: string): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false // there is no such process
  }
}

test('without autocannon it says what to install; beside it, it is found', async () => {
  const modules = join(mkdtempSync(join(tmpdir(), 'wasm-serve-peer-')), 'node_modules')
  onTestFinished(() => rmSync(dirname(modules), { recursive: true, force: true }))
  const installed = join(modules, 'wasm-serve')
  cpSync(join(ROOT, 'dist'), join(installed, 'dist'), { recursive: true })
  cpSync(join(ROOT, 'package.json'), join(installed, 'package.json'))
  const link = (name: string) => {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const name of Object.keys(dependencies)) link(name)
  const bench = async () => {
    const child = spawn(process.execPath, [join(installed, 'dist/cli.js'), 'bench', guest('echo'), ...QUICK])
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text) => (said += text))
    child.stdout.resume()
    const [code] = await once(child, 'close')
    return { code, said }
  }

  const without = await bench()
  expect(without.code).toBe(2)
  expect(without.said).toContain('npm install autocannon')
  expect(without.said).toContain('npx -y -p autocannon -p wasm-serve wasm-serve bench')
  link('autocannon')
  expect(await bench()).toEqual({ code: 0, said: '' })
})

test('a server that ends under load, or before, ends it with 1 and the reason', async () => {
  const ending = (calls: number) =>
    file(
      `ending-${calls}.mjs`,
      `let calls = 0
      export default { env: { relay: (context, at) => {
        if (++calls > ${calls}) process.exit(3)
        return context.store(context.read(at).text())
      } } }`,
    )
  const bench = (functions: string) =>
    run(['bench', guest('relay'), '-i', 'a', ...QUICK, '--functions', functions])
  const [before, under] = [await bench(ending(3)), await bench(ending(300))]
  expect([before.code, before.stderr]).toEqual([1, expect.stringContaining('does not respond to this input')])
  expect([under.code, under.stderr]).toEqual([1, expect.stringContaining('it exited under load')])
  for (const { stderr } of [before, under]) expect(stderr).not.toContain('this is a bug')
})

test.each([
  ['in time', [], 'WASM_SERVE_DEADLINE_EXCEEDED'],
  ['and has a long time', ['--timeout', '60000'], 'does not respond to this input within 5000 ms'],
])('a guest that does not answer %s ends it with 1', async (_what, flags, said) => {
  const { code, stderr } = await run(['bench', guest('loop'), ...QUICK, ...flags])
  expect([code, stderr]).toEqual([1, expect.stringContaining(said)])
})

test.each([
  ['no plug-in', 2, [], 'name a plug-in'],
  ['a port', 2, [guest('echo'), '8080'], 'port'],
  ['no connections', 2, [guest('echo'), '-c', '0'], '-c'],
  ['a flag that does not exist', 2, [guest('echo'), '--matrx'], 'did you mean "--matrix"'],
  ['an option that is wrong', 2, [guest('echo'), '--memory-max', '65537'], '--memory-max'],
  ['several functions and no name', 2, [guest('several')], 'alpha, b:ta, several'],
  ['a guest that says no', 1, [guest('refuse'), '-i', 'no, Bob'], '409: no, Bob'],
  ['a plug-in that cannot be served', 1, [guest('bad-start')], 'cannot be started'],
])('%s ends with a message and exit %i', async (_, exit, args, ...said) => {
  const { code, stdout, stderr } = await run(['bench', ...args])
  expect([code, stdout]).toEqual([exit, ''])
  for (const text of said) expect(stderr).toContain(text)
  expect(stderr).not.toMatch(/^\s+at /m)
  expect(stderr).not.toContain('this is a bug')
})
