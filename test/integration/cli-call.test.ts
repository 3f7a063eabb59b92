import { expect, test } from 'vitest'
import { run } from '../support/cli.ts'
import { file, guest, guestBytes } from '../support/guest.ts'
import { streamGuest } from '../support/stream-guest.ts'

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)

test('the output is printed byte for byte, with nothing before or after it', async () => {
  const { code, bytes, stderr } = await run(['call', guest('echo'), '--stdin'], {}, { input: everyByte })
  expect([code, stderr]).toEqual([0, ''])
  expect(bytes).toEqual(Buffer.from(everyByte))
})

test('the input comes from a flag, a file or standard input, and is empty unless given', async () => {
  const path = file('input.bin', everyByte)
  const output = async (args: string[], input?: string) =>
    (await run(['call', guest('echo'), ...args], {}, input === undefined ? {} : { input })).bytes
  expect(await output(['--input', '😄 Bob'])).toEqual(Buffer.from('😄 Bob'))
  expect(await output(['-i', 'Bob'])).toEqual(Buffer.from('Bob'))
  expect(await output(['--input=--dashes'])).toEqual(Buffer.from('--dashes'))
  expect(await output(['--input-file', path])).toEqual(Buffer.from(everyByte))
  expect(await output(['--stdin'], 'piped')).toEqual(Buffer.from('piped'))
  expect(await output([], 'not asked for')).toEqual(Buffer.alloc(0))
})

test('an output of megabytes arrives whole', async () => {
  const input = 'x'.repeat(3_000_000)
  const { code, bytes } = await run(['call', guest('echo'), '--stdin'], {}, { input })
  expect([code, bytes.length]).toEqual([0, input.length])
})

test('a function is called by its name', async () => {
  expect((await run(['call', guest('several'), 'alpha'])).stdout).toBe('a')
  expect((await run(['call', guest('several'), '--function', 'b:ta'])).stdout).toBe('b')
})

test('a loop calls one instance, and prints each output', async () => {
  expect((await run(['call', guest('count'), 'count', '--loop', '5'])).stdout).toBe('12345')
  expect((await run(['call', guest('count'), 'count', '--loop', '3', '--isolation', 'fresh'])).stdout).toBe(
    '111',
  )
})

test('the timing of each call goes to standard error', async () => {
  const { stdout, stderr } = await run(['call', guest('count'), 'count', '--loop', '2', '--timing'])
  expect(stdout).toBe('12')
  expect(stderr).toMatch(/^call 1: \d+\.\d{3} ms\ncall 2: \d+\.\d{3} ms\n2 calls: \d+\.\d{3} ms in total\n$/)
})

test('a guest that says no ends it with 1, and its message on standard error', async () => {
  const { code, stdout, stderr } = await run(['call', guest('refuse'), '-i', 'no, Bob'])
  expect([code, stdout, stderr]).toEqual([1, '', 'wasm-serve: no, Bob (WASM_SERVE_GUEST_ERROR)\n'])
})

test.each(['kernel', 'sdk'])('a trap ends it with 1, and says where the guest was (%s)', async (runtime) => {
  const { code, stderr } = await run(['call', guest('trap'), '-i', 'x', '--runtime', runtime])
  expect(code).toBe(1)
  expect(stderr).toContain('"reason":"unreachable"')
  expect(stderr).toContain('"guestStack":["inner","outer","trap"]')
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('a refused HTTP request and a limit of variables end it with 1, and standard error has the reason', async () => {
  const request = ['-i', '{"url":"http://127.0.0.1/"}']
  const refused = await run(['call', guest('fetch'), 'fetch', ...request])
  expect([refused.code, refused.stdout]).toEqual([1, ''])
  expect(refused.stderr).toMatch(/HTTP requests are not allowed.*\n.*WASM_SERVE_GUEST_TRAP/s)
  const full = await run(['call', guest('hostile-host'), 'set_big', '-i', 'name', '--var-max', '1024'])
  expect([full.code, full.stdout]).toEqual([1, ''])
  expect(full.stderr).toMatch(/variable store is full.*\n.*WASM_SERVE_VARIABLES_FULL/s)
})

test("the guest's log lines go to standard error, from the level on that is asked for", async () => {
  const levels = async (...args: string[]) => {
    const { stdout, stderr } = await run(['call', guest('log'), 'log', '-i', 'dear log', ...args])
    expect(stdout).toBe('')
    return stderr
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).level)
  }
  expect(await levels()).toEqual(['info', 'warn', 'error'])
  expect(await levels('--log-level', 'error')).toEqual(['error'])
  expect(await levels('--log-level', 'silent')).toEqual([])
})

test('config, links, functions and manifests are those of serve', async () => {
  expect((await run(['call', guest('config'), '-i', 'a', '--config', 'a=1'])).stdout).toBe('1')
  expect((await run(['call', guest('config'), '-i', 'a'], { WASM_SERVE_CONFIG: '{"a":"2"}' })).stdout).toBe(
    '2',
  )

  const functions = file(
    'reverse.mjs',
    `export default { env: { relay: (context, at) =>
      context.store([...context.read(at).text()].reverse().join('')) } }`,
  )
  expect((await run(['call', guest('relay'), '-i', 'abc', '--functions', functions])).stdout).toBe('cba')

  const speaker = `(module (import "speak" "speak" (func $speak (param i32)))
    (func (export "go") (call $speak (i32.const 33))))`
  const main = file('says.wasm', guestBytes(speaker))
  expect((await run(['call', main, '--link', `speak=${guest('link-speak')}`])).stdout).toBe('!')

  const manifest = file(
    'call.json',
    JSON.stringify({ wasm: [{ path: guest('config') }], config: { a: '3' } }),
  )
  expect((await run(['call', '-m', manifest, '-i', 'a'])).stdout).toBe('3')
})

test('a guest that does not come back is ended when its time is up', async () => {
  const { code, stdout, stderr } = await run(['call', guest('loop'), '-i', 'x', '--timeout', '100'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain('ran longer than the timeout of 100 ms')
})

test('in a thread it prints the same, and says why a thread was lost', async () => {
  expect((await run(['call', guest('count'), 'count', '--loop', '3', '--workers', '1'])).stdout).toBe('123')
  const functions = file('exit.mjs', 'export default { env: { relay: () => process.exit(7) } }')
  const lost = await run(['call', guest('relay'), '-i', 'a', '--workers', '1', '--functions', functions])
  expect([lost.code, lost.stderr]).toEqual([1, expect.stringContaining('it exited with code 7')])
})

test('variables of the server are no business of it', async () => {
  const { code, stdout } = await run(['call', guest('echo'), '-i', 'a'], {
    WASM_SERVE_PORT: '9000',
    WASM_SERVE_BODY_LIMIT: '1',
  })
  expect([code, stdout]).toEqual([0, 'a'])
})

const echo = guest('echo')

test.each([
  ['no plug-in', 2, [], 'name a plug-in'],
  ['two inputs', 2, [echo, '-i', 'a', '--stdin'], 'twice', '--input-file'],
  ['an input file that does not exist', 2, [echo, '--input-file', '/no/such'], '/no/such'],
  ['a port', 2, [echo, '8080'], 'call takes no port'],
  ['a flag of the server', 2, [echo, '--host', '::'], '--host'],
  ['a flag about bodies', 2, [echo, '--body-limit', '5'], '--body-limit'],
  ['a contract', 2, [echo, '--contract', 'http'], '--contract'],
  [
    'a deadline on the event loop',
    2,
    [echo, '--engine', 'inline', '--timeout', '5', '--interrupts', 'off'],
    'a guest on the event loop cannot be terminated',
  ],
  ['a flag that does not exist', 2, [echo, '--inptu', 'a'], 'did you mean "--input"'],
  ['a flag without its value', 2, [echo, '--input'], '--input: needs a value'],
  ['a loop of nothing', 2, [echo, '--loop', '0'], '--loop'],
  ['a function that there is not', 2, [guest('several'), 'alhpa'], 'did you mean "alpha"'],
  ['several functions and no name', 2, [guest('several')], 'alpha, b:ta, several'],
  ['a module that cannot start', 1, [guest('bad-start')], 'cannot be started'],
  ['imports that nobody provides', 2, [guest('bad-import')], 'env abort'],
  ['an output that is too large', 1, [echo, '-i', 'abcd', '--output-limit', '3'], '4 bytes', '3'],
])('%s ends with a message and exit %i', async (_, exit, args, ...said) => {
  const { code, stdout, stderr } = await run(['call', ...args])
  expect([code, stdout]).toEqual([exit, ''])
  for (const text of said) expect(stderr).toContain(text)
  expect(stderr).not.toMatch(/^\s+at /m)
  expect(stderr).not.toContain('this is a bug')
})

test('a guest that streams reads the input as its body, and its answer is printed as it comes', async () => {
  const call = async (args: string[], input?: string) => {
    const { code, bytes } = await run(
      ['call', guest('stream'), ...args],
      {},
      input === undefined ? {} : { input },
    )
    return [code, String(bytes)]
  }
  expect(await call(['echo', '--stdin'], 'piped')).toEqual([0, 'piped'])
  expect(await call(['swallow', '-i', 'hello'])).toEqual([0, '5'])
})

test('a head, trailers and an output that HTTP would not send are refused or ignored, and the log says why', async () => {
  const path = file(
    'wrong.wasm',
    streamGuest(
      ...[['start', '{"status":99}'] as const, ['start', '{"trailers":["x-a"]}'] as const],
      ...[['trailers', '{"x-b":"1"}'] as const, ['write', 'body'] as const, ['output', 'lost'] as const],
    ),
  )
  const { code, stdout, stderr } = await run(['call', path])
  expect([code, stdout]).toEqual([0, 'body'])
  expect(stderr).toContain('status')
  expect(stderr).toContain('a header was not announced')
  expect(stderr).toContain('is ignored')
})
