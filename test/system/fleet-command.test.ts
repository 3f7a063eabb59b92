import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type Run, run, start } from '../support/cli.ts'
import { run as runProcess } from '../support/cli-process.ts'
import { guestBytes } from '../support/guest.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

/** Its value is that of the environment. */
const variable = (name: string) => `\${${name}}`

describeWith(['redis-server'], () => {
  let redis: RedisServer
  let url: string
  let fleets = 0
  let name: string
  let folder: string

  beforeAll(async () => {
    redis = await startRedis()
    url = `redis://127.0.0.1:${redis.port}`
  })
  afterAll(() => redis.stop())

  beforeEach(() => {
    name = `fleet-${++fleets}`
    folder = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'echo.wasm'), guestBytes('echo'))
  })

  /** Writes the config file of the fleet. */
  function configure(more: object = {}, fleet: object = {}): string {
    const path = join(folder, 'fleet.json')
    const config = {
      fleet: { url, name, pollMs: 100, ...fleet },
      plugins: { echo: { source: 'echo.wasm' } },
      routes: [{ url: '/echo', plugin: 'echo' }],
      ...more,
    }
    writeFileSync(path, JSON.stringify(config))
    return path
  }

  function fleet(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Run> {
    return run(['fleet', ...args], env)
  }

  /** Calls with the store on the command line. */
  function atStore(args: readonly string[]): Promise<Run> {
    return fleet([...args, '--fleet', url, '--fleet-name', name])
  }

  async function startNode(node: string, file: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
    return start(['-c', file, '--port', '0', '--fleet-node', node], env).listening()
  }

  test('a fleet without a revision has no status and no history, and differs from each file', async () => {
    const file = configure()
    const found = await Promise.all([atStore(['status']), atStore(['history']), atStore(['rollback'])])
    for (const { code, stderr } of found) {
      expect(code).toBe(1)
      expect(stderr).toContain('WASM_SERVE_FLEET_EMPTY')
    }
    const { code, stdout } = await fleet(['diff', '-f', file])
    expect(code).toBe(3)
    expect(stdout).toContain('+ POST /echo')
  })

  test('apply stores a revision once, nodes serve it, and status says so', async () => {
    const file = configure()
    const first = await fleet([
      'apply',
      '-f',
      file,
      '--reason',
      'first',
      '--by',
      'ci',
      '--expect',
      '0',
      '--json',
    ])
    expect(JSON.parse(first.stdout)).toMatchObject({ changed: true, revision: 1, by: 'ci', reason: 'first' })
    expect((await atStore(['status'])).code).toBe(3)
    const again = await fleet(['apply', '-f', file, '--json'])
    expect([again.code, JSON.parse(again.stdout)]).toMatchObject([0, { changed: false, revision: 1 }])
    expect((await fleet(['diff', '-f', file])).code).toBe(0)

    await startNode('one', file)
    expect((await fleet(['apply', '-f', file, '--wait'])).stdout).toContain('All nodes serve it: 1.')
    const { code, stdout } = await atStore(['status', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      newest: { revision: 1, by: 'ci' },
      nodes: [{ node: 'one', live: true, revision: 1 }],
    })
    const text = (await atStore(['status'])).stdout
    expect(text).toMatch(/\n {2}one +yes +1 /)
    expect(text).toMatch(/\n {2}echo +[\da-f]{12} +1 of 1\n/)
  })

  test('apply changes what all nodes answer, and rollback brings the earlier answer back', async () => {
    const file = configure()
    const nodes = await Promise.all(['one', 'two'].map((node) => startNode(node, file)))
    const answers = async (path: string) =>
      Promise.all(
        nodes.map(async (node) => {
          const answer = await fetch(new URL(path, node), { method: 'POST', body: node })
          return answer.status === 200 ? (await answer.text()) === node : answer.status
        }),
      )
    expect(await answers('/echo')).toEqual([true, true])
    configure({ routes: [{ url: '/other', plugin: 'echo' }] })
    const applied = await fleet(['apply', '-f', file, '--wait'])
    expect([applied.code, applied.stdout]).toEqual([0, expect.stringContaining('- POST /echo')])
    expect(await answers('/other')).toEqual([true, true])
    expect(await answers('/echo')).toEqual([404, 404])

    const back = await atStore(['rollback', '--wait', '--by', 'me', '--json'])
    expect([back.code, JSON.parse(back.stdout)]).toMatchObject([0, { by: 'me', nodes: ['one', 'two'] }])
    expect(await answers('/echo')).toEqual([true, true])
    const history = JSON.parse((await atStore(['history', '--json'])).stdout)
    expect(history.map((each: { revision: number }) => each.revision)).toEqual([3, 2, 1])
    const named = await atStore(['rollback', '2', '--wait'])
    expect(named.code).toBe(0)
    expect(await answers('/other')).toEqual([true, true])
    expect((await atStore(['rollback', '99'])).stderr).toContain('WASM_SERVE_ADMIN_CONFLICT')
  })

  test('diff names routes, options and digests that differ, and no file names', async () => {
    const file = configure({ defaults: { timeoutMs: 1_000, engine: 'workers' } })
    expect((await fleet(['apply', '-f', file])).code).toBe(0)
    const moved = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-'))
    onTestFinished(() => rmSync(moved, { recursive: true, force: true }))
    folder = moved
    writeFileSync(join(folder, 'echo.wasm'), guestBytes('echo'))
    const elsewhere = configure({ defaults: { engine: 'workers', timeoutMs: 1_000 } })
    expect((await fleet(['diff', '-f', elsewhere])).stdout).toBe('Nothing differs from revision 1.\n')

    writeFileSync(join(folder, 'echo.wasm'), guestBytes('upper'))
    configure({
      defaults: { engine: 'workers', timeoutMs: 2_000 },
      rateLimit: { max: 9, timeWindowMs: 1_000 },
    })
    const { code, stdout } = await fleet(['diff', '-f', elsewhere, '--json'])
    const timeout = { name: 'timeoutMs', before: '1000', after: '2000' }
    const digest = expect.stringMatching(/^[\da-f]{64}$/)
    expect(code).toBe(3)
    expect(JSON.parse(stdout)).toMatchObject({
      revision: 1,
      server: [{ name: 'rateLimit', after: '{"max":9,"timeWindowMs":1000}' }],
      routes: [
        {
          route: 'POST /echo',
          change: 'changed',
          options: [timeout],
        },
      ],
      plugins: [{ name: 'echo', before: digest, after: digest }],
    })
  })

  test('variables are stored and shown by name, and a literal key is hidden and warned of', async () => {
    const secret = 'a-value-of-this-machine'
    const key = 'literal-key-abcdef'
    const file = configure({
      apiKeys: [key],
      routes: [{ url: '/echo', plugin: 'echo', config: { token: variable('TOKEN') } }],
    })
    const shown = await fleet(['diff', '-f', file], { TOKEN: secret })
    expect(shown.stdout).toContain(variable('TOKEN'))
    const applied = await fleet(['apply', '-f', file], { TOKEN: secret })
    expect([applied.code, applied.stderr]).toEqual([
      0,
      expect.stringMatching(/fleet.json:\d+:\d+: this secret/),
    ])
    expect(applied.stderr).toMatch(/may refuse it: .*fleet.json:\d+:\d+: config: \$\{TOKEN\}/)
    configure({
      apiKeys: [`${key}-2`],
      routes: [{ url: '/echo', plugin: 'echo', config: { token: variable('TOKEN') } }],
    })
    const changed = await fleet(['diff', '-f', file], { TOKEN: 'another-value-here' })
    expect([changed.code, changed.stdout]).toEqual([3, expect.stringContaining('~ apiKeys: ["(secret)"]')])
    expect(changed.stdout).not.toContain('config')
    for (const { stdout, stderr } of [shown, applied, changed]) {
      expect(stdout + stderr).not.toContain(secret)
      expect(stdout + stderr).not.toContain(key)
    }
  })

  test('apply checks the file first, and stores nothing that cannot be served', async () => {
    const file = configure({ routes: [{ url: '/echo', plugin: 'echo', function: 'missing' }] })
    const { code, stderr } = await fleet(['apply', '-f', file])
    expect([code, stderr]).toEqual([2, expect.stringContaining('WASM_SERVE_FUNCTION_UNKNOWN')])
    configure({ routes: [{ url: '/echo', plugin: 'echo', smoke: { body: 'a', expect: 'b' } }] })
    expect((await fleet(['apply', '-f', file])).code).toBeGreaterThan(0)
    expect((await atStore(['status'])).stderr).toContain('WASM_SERVE_FLEET_EMPTY')
  })

  test('apply expects a revision, if it is asked to', async () => {
    const file = configure()
    expect((await fleet(['apply', '-f', file])).code).toBe(0)
    configure({ routes: [{ url: '/other', plugin: 'echo' }] })
    const { code, stderr } = await fleet(['apply', '-f', file, '--expect', '7'])
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_FLEET_REVISION_OTHER')])
    expect((await fleet(['apply', '-f', file, '--expect', '1'])).code).toBe(0)
  })

  test('of many that apply at once on one revision, one wins', async () => {
    const file = configure()
    expect((await fleet(['apply', '-f', file])).code).toBe(0)
    configure({ routes: [{ url: '/other', plugin: 'echo' }] })
    const all = await Promise.all(
      Array.from({ length: 4 }, (_, index) =>
        fleet(['apply', '-f', file, '--expect', '1', '--by', `${index}`]),
      ),
    )
    expect(all.map(({ code }) => code).sort()).toEqual([0, 1, 1, 1])
    expect(JSON.parse((await atStore(['history', '--json'])).stdout)).toHaveLength(2)
  })

  test('a node that refuses a revision makes --wait and status fail with its reason', async () => {
    const allow = { env: ['TOKEN', 'ONLY_HERE'] }
    const routes = (name: string) => [{ url: '/echo', plugin: 'echo', config: { token: variable(name) } }]
    const file = configure({ routes: routes('TOKEN') }, { allow })
    await startNode('one', file, { TOKEN: 'here' })
    configure({ routes: routes('ONLY_HERE') }, { allow })
    const { code, stderr } = await fleet(['apply', '-f', file, '--wait'], { ONLY_HERE: 'yes' })
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_FLEET_NOT_APPLIED')])
    expect(stderr).toContain('ONLY_HERE')
    const status = await atStore(['status'])
    expect([status.code, status.stdout]).toEqual([1, expect.stringContaining('ONLY_HERE')])
  })

  test('a revision that the rollout takes back makes --wait fail', async () => {
    const file = configure({}, { onRefusals: 'rollback' })
    await startNode('one', file)
    configure(
      { routes: [{ url: '/echo', plugin: 'echo', config: { token: variable('ONLY_HERE') } }] },
      { onRefusals: 'rollback' },
    )
    const { code, stderr } = await fleet(['apply', '-f', file, '--wait'], { ONLY_HERE: 'yes' })
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_FLEET_NOT_APPLIED')])
    const [newest] = JSON.parse((await atStore(['history', '--json'])).stdout)
    expect(newest).toMatchObject({ revision: 3, by: 'the rollout' })
  })

  test('texts of the store cannot move the cursor of a terminal', async () => {
    const file = configure()
    await fleet(['apply', '-f', file, '--by', '\u001b[31mred', '--reason', 'a\u001b]0;title\u0007'])
    for (const action of ['status', 'history']) {
      const { stdout } = await atStore([action])
      expect(stdout).toContain('\\u001b[31mred')
      expect(stdout).not.toContain('\u001b')
    }
  })

  test('a store that cannot be reached is an error with the reason, and without its password', async () => {
    const { code, stdout, stderr } = await fleet(['status', '--fleet', 'redis://user:hidden@127.0.0.1:1'])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('WASM_SERVE_FLEET_UNAVAILABLE')
    expect(stderr).toContain('ECONNREFUSED')
    expect(stderr).not.toContain('hidden')
  })
})

test('a store that accepts connections and does not answer is an error, and the command ends', async () => {
  const sockets = new Set<Socket>()
  const silent = createServer((socket) => void sockets.add(socket.on('error', () => undefined)))
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const { port } = silent.address() as AddressInfo
  const { code, stderr } = await runProcess(['fleet', 'status', '--fleet', `redis://127.0.0.1:${port}`])
  expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_FLEET_UNAVAILABLE')])
})

test.each([
  [[], 'name an action'],
  [['--json'], 'name an action'],
  [['stat'], 'did you mean "status"'],
  [['status', '--wait'], '--wait'],
  [['diff', '--expect', '1'], '--expect'],
  [['apply', '--expect', 'x', '--fleet', 'redis://127.0.0.1:1', '-f', 'FILE'], '--expect'],
  [['apply', 'hello.wasm', '--fleet', 'redis://127.0.0.1:1'], 'hello.wasm'],
  [['status', '--timeout', '1', '--fleet', 'redis://127.0.0.1:1'], '--timeout'],
  [['status', '--port', '1', '--fleet', 'redis://127.0.0.1:1'], '--port'],
  [['rollback', 'x', '--fleet', 'redis://127.0.0.1:1'], '"x"'],
  [['rollback', '0', '--fleet', 'redis://127.0.0.1:1'], '"0"'],
  [['rollback', '--fleet', 'redis://127.0.0.1:1', '0'], '"0"'],
  [['rollback', '1', '2', '--fleet', 'redis://127.0.0.1:1'], '"2"'],
  [['status', '--fleet', 'redis://127.0.0.1:1', '3'], '"3"'],
  [['status'], 'name its store'],
  [['apply', '--fleet', 'redis://127.0.0.1:1'], 'name a config file'],
])('fleet %j ends with exit 2 and a message that names the mistake', async (args, expected) => {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(join(cwd, 'FILE.json'), '{"routes":[{"plugin":"a.wasm"}]}')
  const words = args.map((word) => (word === 'FILE' ? 'FILE.json' : word))
  const { code, stderr } = await run(['fleet', ...words], { WASM_SERVE_MANIFEST: 'other.json' }, { cwd })
  expect([code, stderr]).toEqual([2, expect.stringContaining(expected)])
})
