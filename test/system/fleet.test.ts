import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { expect, onTestFinished, test } from 'vitest'
import { sha256 } from '../../src/plugin/source/digest.ts'
import { type NodeOptions, type NodeProcess, startNode } from '../support/fleet/node-process.ts'
import { versionModule, versionName } from '../support/fleet/versions.ts'
import { file } from '../support/guest.ts'
import { childrenOf } from '../support/processes.ts'
import { freePort, type RedisServer, startRedis, startRedisTls, tlsFile } from '../support/redis.ts'
import { signBytes } from '../support/registry-plugins.ts'
import { makeKey } from '../support/signatures.ts'
import { describeWith } from '../support/tools.ts'

/** The plug-in of all nodes, in its version 0. */
const PLUGIN = file('handle.wasm', versionModule(0))

/** A shorter interval than the default. */
const POLL = ['--fleet-poll-ms', '200']

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function store(args: readonly string[] = [], port?: number): Promise<RedisServer> {
  const server = await startRedis(args, port)
  onTestFinished(() => server.stop())
  return server
}

const urlOf = ({ port }: Pick<RedisServer, 'port'>) => `redis://127.0.0.1:${port}`

interface StartOptions extends Partial<NodeOptions> {
  /** Of the other options. */
  readonly flags?: readonly string[]
}

/** Starts a node; the first one has a plug-in. Killed when the test ends. */
async function launch(store: string, node: string, options: StartOptions = {}): Promise<NodeProcess> {
  const { args = node === 'a' ? [PLUGIN] : [], flags = POLL, ...others } = options
  const ports = { port: await freePort(), adminPort: await freePort() }
  const started = startNode({ store, node, ...ports, args: [...args, ...flags], ...others })
  onTestFinished(() => {
    started.child.kill('SIGKILL')
  })
  return started
}

/** The same, once it listens. */
async function start(store: string, node: string, options?: StartOptions): Promise<NodeProcess> {
  const started = await launch(store, node, options)
  await started.listening
  return started
}

/** Starts nodes a, b and so on. */
async function startAll(store: string, count: number, options?: StartOptions): Promise<NodeProcess[]> {
  const [first, ...others] = [...'abcdef'].slice(0, count)
  return [
    await start(store, first ?? '', options),
    ...(await Promise.all(others.map((name) => start(store, name, options)))),
  ]
}

/** The version that a node serves. */
async function served({ url }: NodeProcess): Promise<string> {
  const answer = await fetch(url, { method: 'POST', body: '' })
  expect(answer.status).toBe(200)
  return answer.text()
}

const servedBy = (nodes: readonly NodeProcess[]) => Promise.all(nodes.map(served))

const put = ({ ask }: NodeProcess, version: number, headers: Record<string, string> = {}, query = '') =>
  ask('PUT', `/api/plugins/handle${query}`, { body: versionModule(version), headers })

const fleetOf = async ({ ask }: NodeProcess) => (await ask('GET', '/api/fleet')).body

const tagOf = async ({ ask }: NodeProcess) => (await ask('GET', '/api')).tag

/** What a node calls its revision, and that of its last change. */
async function lastRevisions({ ask }: NodeProcess): Promise<unknown[]> {
  const [now, changes] = await Promise.all([ask('GET', '/api'), ask('GET', '/api/changes')])
  return [now.body.revision, changes.body[0].revision]
}

async function readiness({ adminUrl }: NodeProcess) {
  const answer = await fetch(`${adminUrl}/readyz`)
  return { status: answer.status, ...(JSON.parse(await answer.text()).fleet ?? {}) }
}

/** Waits until something holds. The limit of the test ends it. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(20)
}

const untilServed = (nodes: readonly NodeProcess[], version: number) =>
  until(async () => (await servedBy(nodes)).every((name) => name === versionName(version)))

const untilPhase = (node: NodeProcess, phase: string) =>
  until(async () => (await fleetOf(node)).rollout.phase === phase)

const untilListed = (node: NodeProcess, count: number) =>
  until(async () => (await fleetOf(node)).nodes.length === count)

/** A client that reads and writes whatever it likes. */
async function raw(url: string) {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.destroy())
  return client
}

describeWith(['redis-server'], () => {
  test('the first start makes the first revision, a node without files joins, and any node changes all', async () => {
    const url = urlOf(await store())
    const nodes = await startAll(url, 3)
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    expect(b.printed()).toContain('fleet default, revision 1')
    expect(await servedBy(nodes)).toEqual(Array(3).fill(versionName(0)))
    await untilListed(a, 3)
    for (const [version, node] of [c, b, a].entries()) {
      const { status, body } = await put(node, version + 1, { from: 'ops@example.com' }, '?wait=applied')
      expect([status, body.change]).toEqual([
        200,
        expect.objectContaining({ ok: true, revision: version + 2 }),
      ])
      expect(await Promise.all(nodes.map(lastRevisions))).toEqual(nodes.map(() => [version + 2, version + 2]))
      expect(await servedBy(nodes)).toEqual(Array(3).fill(versionName(version + 1)))
    }
    const fleet = await fleetOf(a)
    expect(fleet).toMatchObject({
      node: 'a',
      connected: true,
      newest: { revision: 4, by: 'ops@example.com' },
    })
    const digest = sha256(versionModule(3))
    expect(fleet.nodes).toMatchObject(
      ['a', 'b', 'c'].map((node) => ({ node, live: true, revision: 4, plugins: { handle: digest } })),
    )
    expect(fleet.revisions.map(({ revision }: { revision: number }) => revision)).toEqual([4, 3, 2, 1])
  })

  test('of two operators with the same entity tag, one gets 412, whichever nodes they use', async () => {
    const [a, b] = (await startAll(urlOf(await store()), 2)) as [NodeProcess, NodeProcess]
    for (let round = 0; round < 5; round++) {
      const tag = await tagOf(a)
      expect(await tagOf(b)).toBe(tag)
      const answers = await Promise.all(
        [a, b].map((node, index) => put(node, 2 * round + index + 1, { 'if-match': tag })),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 412])
      const winner = 2 * round + 1 + answers.findIndex(({ status }) => status === 200)
      await untilServed([a, b], winner)
      await until(async () => (await tagOf(a)) === (await tagOf(b)))
    }
  })

  test('only the canary serves a revision first, no other change is possible then, and all serve it at the end', async () => {
    const flags = [...POLL, '--fleet-canary-nodes', '1', '--fleet-canary-ms', '2000']
    const nodes = await startAll(urlOf(await store()), 3, { flags })
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    await untilListed(a, 3)
    expect((await put(b, 1)).status).toBe(200)
    expect((await fleetOf(c)).rollout).toMatchObject({ phase: 'canary', nodes: ['b'] })
    expect(await put(c, 2)).toMatchObject({ status: 409, body: { code: 'WASM_SERVE_ADMIN_CONFLICT' } })
    for (let isOver = false; !isOver; ) {
      const answers = await servedBy(nodes)
      isOver = (await fleetOf(a)).rollout.phase !== 'canary'
      if (!isOver) expect(answers).toEqual([0, 1, 0].map(versionName))
    }
    await untilServed(nodes, 1)
    await untilPhase(a, 'done')
  })

  test('the rollout of a revision that a node refuses stops, with the reason, until it is rolled back', async () => {
    const [a, small] = await startWithSmall(['--fleet-on-refusals', 'stop'])
    expect((await a.ask('PUT', '/api/plugins/handle', { body: versionModule(1, 100) })).status).toBe(200)
    await untilPhase(a, 'stopped')
    const { rollout, nodes } = await fleetOf(small)
    const refused = { revision: 2, code: 'WASM_SERVE_PLUGIN_INVALID' }
    expect(rollout.problem).toContain('1 node refuses revision 2')
    expect(nodes).toMatchObject([
      { node: 'a', revision: 2 },
      { node: 'small', revision: 1, refused },
    ])
    expect(await servedBy([a, small])).toEqual([1, 0].map(versionName))
    expect(await readiness(small)).toMatchObject({ status: 200, revision: 1, refused: refused.code })
    expect((await put(a, 2)).body.code).toBe('WASM_SERVE_ADMIN_CONFLICT')
    expect(await small.ask('POST', '/api/fleet/rollback', { body: {} })).toMatchObject({
      status: 200,
      body: { revision: 3, by: 'small', reason: 'back to revision 1' },
    })
    await untilServed([a, small], 0)
    expect((await fleetOf(a)).nodes[1].refused).toBeUndefined()
    expect((await put(a, 3, {}, '?wait=applied')).status).toBe(200)
  })

  test('a revision that a node refuses is rolled back by the fleet, if told to, and who waits for it gets the reason', async () => {
    const [a, small] = await startWithSmall(['--fleet-on-refusals', 'rollback'])
    const body = versionModule(1, 100)
    expect(await a.ask('PUT', '/api/plugins/handle?wait=applied', { body })).toMatchObject({
      status: 409,
      body: { code: 'WASM_SERVE_FLEET_NOT_APPLIED' },
    })
    await untilServed([a, small], 0)
    await untilPhase(a, 'done')
    const { newest, rollout } = await fleetOf(a)
    expect(newest).toMatchObject({ revision: 3, by: 'the rollout' })
    expect(rollout.problem).toContain('1 node refuses revision 2')
  })

  test('as many nodes may refuse a revision as the limit says', async () => {
    const [a, small] = await startWithSmall(['--fleet-max-refusals', '1'])
    expect((await a.ask('PUT', '/api/plugins/handle', { body: versionModule(1, 100) })).status).toBe(200)
    await untilPhase(a, 'done')
    expect(await servedBy([a, small])).toEqual([1, 0].map(versionName))
    expect((await put(a, 2, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([a, small])).toEqual([2, 2].map(versionName))
  })

  test('a change that a dead node has begun is continued by others', async () => {
    // A node counts as lost after 5 s.
    const flags = [...POLL, '--fleet-canary-nodes', '1', '--fleet-canary-ms', '6000']
    const nodes = await startAll(urlOf(await store()), 3, { flags })
    const [a, b, c] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    await untilListed(b, 3)
    expect((await put(a, 1)).status).toBe(200)
    await a.end('SIGKILL')
    await until(async () => !(await fleetOf(b)).rollout.nodes.includes('a'))
    expect((await fleetOf(b)).rollout).toMatchObject({
      phase: 'canary',
      nodes: [expect.stringMatching(/^[bc]$/)],
    })
    await untilServed([b, c], 1)
    await untilPhase(b, 'done')
    expect((await fleetOf(b)).nodes[0]).toMatchObject({ node: 'a', live: false })
    const { body } = await put(b, 2, {}, '?wait=applied')
    expect(body.change.warnings).toEqual([expect.stringMatching(/do not report were skipped: a$/)])
  })

  test('a node boots from its copy while the store is away, says so, and follows when it is back', async () => {
    const data = ['--dir', temporaryFolder(), '--appendonly', 'yes', '--appendfsync', 'always']
    const server = await store(data)
    const url = urlOf(server)
    const state = temporaryFolder()
    const place = { port: await freePort(), adminPort: await freePort(), state }
    const a = await start(url, 'a')
    const b = await start(url, 'b', place)
    await untilListed(a, 2)
    await put(a, 1, {}, '?wait=applied')
    await server.stop()
    await b.end('SIGKILL')
    const again = await start(url, 'b', place)
    expect(await servedBy([a, again])).toEqual([1, 1].map(versionName))
    expect(await readiness(again)).toMatchObject({ status: 200, connected: false, from: 'copy', revision: 2 })
    await until(async () => !(await readiness(a)).connected)
    expect(await put(a, 2)).toMatchObject({ status: 503, body: { code: 'WASM_SERVE_FLEET_UNAVAILABLE' } })
    expect(await fleetOf(again)).toMatchObject({ connected: false })

    await store(data, server.port)
    await until(async () => (await readiness(again)).from === 'fleet')
    expect((await put(again, 3, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([a, again])).toEqual([3, 3].map(versionName))
  })

  test('a node without a copy refuses to start while the store is away', async () => {
    const url = `redis://user:hunter2@127.0.0.1:${await freePort()}`
    const options = { state: temporaryFolder() }
    const { code, printed } = await (await launch(url, 'a', options)).ended
    expect(code).toBe(1)
    expect(printed).toContain('WASM_SERVE_FLEET_NO_COPY')
    expect(printed).not.toContain('hunter2')
  })

  test('a node that starts without files in an empty fleet says what to do', async () => {
    const { code, printed } = await (await launch(urlOf(await store()), 'b')).ended
    expect(code).toBe(1)
    expect(printed).toContain('WASM_SERVE_FLEET_EMPTY')
  })

  test('fleets of different names in one server do not meet', async () => {
    const url = urlOf(await store())
    const named = (name: string) => ({ flags: [...POLL, '--fleet-name', name], args: [PLUGIN] })
    const [a, b] = await Promise.all([start(url, 'a', named('one')), start(url, 'b', named('two'))])
    expect((await put(a, 1, {}, '?wait=applied')).status).toBe(200)
    expect((await put(b, 2, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([a, b])).toEqual([1, 2].map(versionName))
    expect((await fleetOf(a)).nodes).toMatchObject([{ node: 'a' }])
    expect((await fleetOf(b)).nodes).toMatchObject([{ node: 'b' }])
  })

  test('a store that has lost its data gets back what the nodes serve, also if one has restarted with files meanwhile', async () => {
    const server = await store()
    const url = urlOf(server)
    const place = { port: await freePort(), adminPort: await freePort(), state: temporaryFolder() }
    const a = await start(url, 'a', place)
    const b = await start(url, 'b')
    await put(a, 1, {}, '?wait=applied')
    const { id } = await fleetOf(b)
    await a.end('SIGKILL')
    b.child.kill('SIGSTOP') // it restores nothing yet
    await server.stop()
    await store([], server.port)
    const again = await start(url, 'a', place)
    expect(await served(again)).toBe(versionName(1))
    b.child.kill('SIGCONT')
    await until(async () => (await readiness(b)).connected)
    await until(async () => (await fleetOf(again)).newest !== undefined)
    await untilListed(again, 2)
    expect(await servedBy([again, b])).toEqual([1, 1].map(versionName))
    expect(await fleetOf(b)).toMatchObject({ id, newest: { revision: 2 } })
    expect((await put(b, 2, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([again, b])).toEqual([2, 2].map(versionName))
  })

  test('an earlier revision is served again, as a new one, and one that is not kept is refused', async () => {
    const [a, b] = (await startAll(urlOf(await store()), 2)) as [NodeProcess, NodeProcess]
    for (const version of [1, 2]) await put(a, version, {}, '?wait=applied')
    const back = (body: object) =>
      b.ask('POST', '/api/fleet/rollback?wait=applied', { body, headers: { from: 'me' } })
    const first = { status: 200, body: { revision: 4, by: 'me', reason: 'back to revision 1' } }
    expect(await back({ revision: 1 })).toMatchObject(first)
    expect(await servedBy([a, b])).toEqual([0, 0].map(versionName))
    expect(await back({})).toMatchObject({ status: 200, body: { revision: 5 } })
    expect(await servedBy([a, b])).toEqual([2, 2].map(versionName))
    expect(await back({ revision: 77 })).toMatchObject({ status: 409 })
  })

  test('a node that ends removes its record', async () => {
    const [a, b] = (await startAll(urlOf(await store()), 2)) as [NodeProcess, NodeProcess]
    await untilListed(a, 2)
    expect(await b.end('SIGTERM')).toMatchObject({ code: 0 })
    expect((await fleetOf(a)).nodes).toMatchObject([{ node: 'a' }])
  })

  test('two nodes with one name are noticed, and a node that takes the place of another is not', async () => {
    const url = urlOf(await store())
    const [a, b] = (await startAll(url, 2)) as [NodeProcess, NodeProcess]
    await b.end('SIGKILL')
    const next = await start(url, 'b')
    await until(async () => (await fleetOf(a)).nodes[1]?.url === next.url)
    const namesake = await start(url, 'a', { args: [] })
    await Promise.all(
      [a, namesake].map((node) => until(async () => node.printed().includes('the same name'))),
    )
    expect(next.printed()).not.toContain('the same name')
  })

  test('a node may have serving processes', async () => {
    const url = urlOf(await store())
    const a = await start(url, 'a', { flags: [...POLL, '--processes', '2'] })
    const b = await start(url, 'b')
    const closing = { method: 'POST', body: '', headers: { connection: 'close' } }
    const answers = async () =>
      new Set(await Promise.all(Array.from({ length: 20 }, async () => (await fetch(a.url, closing)).text())))
    for (const [version, node] of [a, b].entries()) {
      expect((await put(node, version + 1, {}, '?wait=applied')).status).toBe(200)
      expect(await answers()).toEqual(new Set([versionName(version + 1)]))
    }
    a.child.kill('SIGHUP') // a change of this node alone
    await until(async () => (await a.ask('GET', '/api/changes')).body[0].reason === 'SIGHUP')
    await until(async () => (await a.ask('GET', '/api/processes')).body.every(hasRevision(3)))
    expect((await a.ask('POST', '/api/reload')).body.change).toMatchObject({ ok: true, revision: 3 })
    expect((await fleetOf(b)).newest.revision).toBe(3)
    const before = childrenOf(a.child.pid ?? 0)
    expect(before).toHaveLength(2)
    for (const pid of before) process.kill(pid, 'SIGKILL')
    await until(async () => {
      const now = childrenOf(a.child.pid ?? 0)
      return now.length === 2 && now.every((pid) => !before.includes(pid))
    })
    await until(async () => (await fetch(`${a.adminUrl}/readyz`)).status === 200)
    expect(await answers()).toEqual(new Set([versionName(2)]))
  })

  test('a damaged head is logged with its code, and the node goes on serving', async () => {
    const url = urlOf(await store())
    const node = await start(url, 'a')
    const head = 'wasm-serve:{fleet:default}:head'
    await (await raw(url)).hSet(head, { tag: 'another', json: '{"newest":' })
    await until(async () => node.printed().includes('the fleet could not be read'))
    const line = node
      .printed()
      .split('\n')
      .find((text) => text.includes('the fleet could not be read'))
    expect(JSON.parse(line ?? '')).toMatchObject({ code: 'WASM_SERVE_FLEET_CONTENT_INVALID' })
    expect(line).not.toContain('stack')
    expect(await served(node)).toBe(versionName(0))
  })

  test('the user of a fleet needs few commands, and only its own keys', async () => {
    const server = await store()
    const admin = await raw(urlOf(server))
    const user = ['ACL', 'SETUSER', 'fleet', 'on', '>secret', 'resetkeys', 'resetchannels', '-@all']
    await admin.sendCommand([...user, ...ACL])
    const url = `redis://fleet:secret@127.0.0.1:${server.port}`
    const [a, b] = (await startAll(url, 2)) as [NodeProcess, NodeProcess]
    for (let version = 1; version <= 25; version++) {
      expect((await put(version % 2 ? a : b, version)).status).toBe(200)
      await untilServed([a, b], version)
    }
    await untilPhase(a, 'done')
    expect((await a.ask('POST', '/api/fleet/rollback', { body: {} })).status).toBe(200)
    await untilServed([a, b], 24)
    await b.end('SIGTERM')
    expect((await fleetOf(a)).nodes).toHaveLength(1)
    const log = (await admin.sendCommand(['ACL', 'LOG'])) as unknown as unknown[]
    expect(log).toEqual([])
  })

  test('nodes reach the store by TLS', async () => {
    const server = await startRedisTls()
    onTestFinished(() => server.stop())
    const url = `rediss://localhost:${server.port}`
    const env = { NODE_EXTRA_CA_CERTS: tlsFile('cert.pem') }
    const [a, b] = (await startAll(url, 2, { env })) as [NodeProcess, NodeProcess]
    expect((await put(b, 1, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([a, b])).toEqual([1, 1].map(versionName))
    const stranger = await (await launch(url, 'stranger')).ended // does not know the authority
    expect(stranger).toMatchObject({
      code: 1,
      printed: expect.stringContaining('WASM_SERVE_FLEET_NO_COPY'),
    })
  })

  test('nodes follow a failover of Sentinel, and lose no revision that its replica has', async () => {
    const primary = await store()
    const replica = await store(['--replicaof', `127.0.0.1 ${primary.port}`])
    const sentinel = await startSentinel(primary.port)
    const url = `redis+sentinel://127.0.0.1:${sentinel.port}/main`
    const nodes = (await startAll(url, 2)) as [NodeProcess, NodeProcess]
    const [a, b] = nodes
    expect((await put(a, 1, {}, '?wait=applied')).status).toBe(200)
    const watcher = await raw(urlOf(sentinel))
    const follower = await raw(urlOf(replica))
    const replicas = async () => JSON.stringify(await watcher.sendCommand(['SENTINEL', 'REPLICAS', 'main']))
    await until(async () => (await replicas()).includes(String(replica.port)))
    await until(async () =>
      String(await follower.sendCommand(['INFO', 'replication'])).includes('link_status:up'),
    )
    await primary.stop()
    const newPrimary = async () =>
      String(await watcher.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main']))
    await until(async () => (await newPrimary()).endsWith(String(replica.port)))
    await until(async () => (await Promise.all(nodes.map(readiness))).every(({ connected }) => connected))
    await until(async () => (await put(b, 2)).status === 200)
    await untilServed(nodes, 2)
    expect((await fleetOf(a)).revisions.length).toBeGreaterThanOrEqual(3)
  })

  test('who can write to the store still cannot run code that is not signed', async () => {
    const url = urlOf(await store())
    const key = makeKey()
    onTestFinished(() => key.close())
    const folder = temporaryFolder()
    const path = join(folder, 'handle.wasm')
    writeFileSync(path, versionModule(0))
    writeFileSync(`${path}.sigstore.json`, signBytes(versionModule(0), key.privateKey))
    const flags = [...POLL, '--require-signatures', '--trust', `*=${key.path}`]
    const nodes = [await start(url, 'a', { args: [path], flags }), await start(url, 'b', { flags })] as const
    await untilListed(nodes[0], 2)
    await tamper(await raw(url), 'default', ({ edits, content }) => {
      const [was, now] = [sha256(versionModule(0)), content(versionModule(1))]
      return { edits: content(edits.replaceAll(was, now)) }
    })
    await until(async () =>
      (await fleetOf(nodes[0])).nodes.every(({ refused }: { refused?: object }) => refused),
    )
    const { nodes: shown } = await fleetOf(nodes[0])
    const refused = { revision: 2, code: 'WASM_SERVE_SIGNATURE_INVALID' }
    expect(shown).toMatchObject([
      { revision: 1, refused },
      { revision: 1, refused },
    ])
    expect(await servedBy(nodes)).toEqual([0, 0].map(versionName))
    const wasm = Buffer.from(versionModule(2)).toString('base64')
    const body = { wasm, bundle: signBytes(versionModule(2), key.privateKey) }
    expect(
      (await nodes[1].ask('POST', '/api/fleet/rollback?wait=applied', { body: { revision: 1 } })).status,
    ).toBe(200)
    expect((await nodes[0].ask('PUT', '/api/plugins/handle?wait=applied', { body })).status).toBe(200)
    expect(await servedBy(nodes)).toEqual([2, 2].map(versionName))
  })

  test('who can write to the store, or to the state folder, gets no code and no file of a node that does not name them', async () => {
    const server = await store()
    const url = urlOf(server)
    const [folder, state] = [temporaryFolder(), temporaryFolder()]
    const tool = join(folder, 'tool.mjs')
    const ran = join(folder, 'ran-in-')
    const code = `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(ran)} + process.pid, '')`
    writeFileSync(tool, `${code}; export default {}`)
    const own = join(folder, 'own.json')
    writeFileSync(own, JSON.stringify({ fleet: { url, allow: { functions: [tool], paths: [folder] } } }))
    const ranIn = ({ child }: NodeProcess) => existsSync(ran + child.pid)
    const place = { port: await freePort(), adminPort: await freePort(), state }
    const nodes = [await start(url, 'a', place), await start(url, 'b', { args: ['-c', own] })] as const
    const [a, b] = nodes
    await untilListed(a, 2)
    const client = await raw(url)
    const old = await headOf(client, 'default')
    const text = (await client.get(`wasm-serve:{fleet:default}:content:${old.configuration}`)) ?? ''
    const asks = JSON.parse(text)
    asks.server[2].push(['static', 0, [0, 'm', [['/fs/', 0, [0, folder]]]]])
    asks.routes[0].given[2].push(['functions', 0, [0, tool]])
    const configuration = JSON.stringify(asks)
    await tamper(client, 'default', ({ content }) => ({ configuration: content(configuration) }))
    await untilPhase(a, 'stopped')
    const { nodes: shown, rollout } = await fleetOf(b)
    const refused = {
      revision: 2,
      code: 'WASM_SERVE_FLEET_FORBIDDEN',
      message: expect.stringContaining(tool),
    }
    expect(shown).toMatchObject([
      { node: 'a', revision: 1, refused },
      { node: 'b', revision: 2 },
    ])
    expect(rollout.problem).toContain('1 node refuses revision 2')
    expect(nodes.map(ranIn)).toEqual([false, true])
    const files = await Promise.all(
      nodes.map(async (node) => (await fetch(`${node.url}/fs/tool.mjs`)).status),
    )
    expect(files).toEqual([404, 200])

    await a.end('SIGKILL')
    await server.stop()
    const copy = JSON.parse(readFileSync(join(state, 'fleet.json'), 'utf8'))
    const revision = { ...copy.revision, configuration: sha256(configuration) }
    writeFileSync(join(state, 'fleet.json'), JSON.stringify({ ...copy, revision, configuration }))
    const again = await launch(url, 'a', place)
    expect(await again.ended).toMatchObject({ code: 1, printed: expect.stringContaining(refused.code) })
    expect(ranIn(again)).toBe(false)
  })

  test('a content that does not have its digest is refused', async () => {
    const url = urlOf(await store())
    const [a, b] = (await startAll(url, 2)) as [NodeProcess, NodeProcess]
    const client = await raw(url)
    await tamper(client, 'default', ({ edits, content }) => {
      const now = sha256(versionModule(1))
      return { edits: content(edits.replaceAll(sha256(versionModule(0)), now)) }
    })
    await client.set(
      `wasm-serve:{fleet:default}:content:${sha256(versionModule(1))}`,
      Buffer.from(versionModule(2)),
    )
    await until(async () => (await fleetOf(a)).nodes.every(({ refused }: { refused?: object }) => refused))
    expect((await fleetOf(a)).nodes[0].refused).toMatchObject({ code: 'WASM_SERVE_FLEET_CONTENT_INVALID' })
    expect(await servedBy([a, b])).toEqual([0, 0].map(versionName))
  })

  test('secrets of the environment are not stored, and a node without one refuses the revision that needs it', async () => {
    const data = temporaryFolder()
    const server = await store(['--dir', data, '--appendonly', 'yes'])
    const url = urlOf(server)
    const folder = temporaryFolder()
    const config = join(folder, 'wasm-serve.json')
    const value = randomUUID()
    const allow = { env: ['FLEET_TEST_KEY'] }
    const routes = [{ plugin: PLUGIN, config: { key: '$'.concat('{FLEET_TEST_KEY}') } }]
    writeFileSync(config, JSON.stringify({ fleet: { url, allow }, routes }))
    const env = { FLEET_TEST_KEY: value }
    const named = (name: string) => ({ args: ['-c', config], flags: [...POLL, '--fleet-name', name], env })
    const one = await start(url, 'a', named('one'))
    const knows = await start(url, 'b', { ...named('one'), env: { FLEET_TEST_KEY: 'other' } })
    expect((await put(knows, 1, {}, '?wait=applied')).status).toBe(200)
    expect(await servedBy([one, knows])).toEqual([1, 1].map(versionName))
    const { code, printed } = await (await launch(url, 'c', { ...named('one'), env: {} })).ended
    expect(code).not.toBe(0)
    expect(printed).toContain('FLEET_TEST_KEY')

    const plain = { flags: [...POLL, '--fleet-name', 'two', '--fleet-max-refusals', '2'] }
    const own = join(folder, 'own.json')
    writeFileSync(own, JSON.stringify({ fleet: { url, allow } }))
    const a = await start(url, 'a', { ...plain, args: [PLUGIN, '-c', own], env })
    const without = await start(url, 'b', { ...plain, args: ['-c', own] })
    await start(url, 'c', { ...plain, env })
    await untilListed(a, 3)
    const client = await raw(url)
    const { configuration } = await headOf(client, 'one')
    const text = await client.get(`wasm-serve:{fleet:one}:content:${configuration}`)
    await tamper(client, 'two', ({ content }) => ({ configuration: content(text ?? '') }))
    await until(async () => (await fleetOf(a)).newest.revision === 2)
    await untilPhase(a, 'done')
    expect((await fleetOf(a)).nodes).toMatchObject([
      { node: 'a', revision: 2 },
      { node: 'b', revision: 1, refused: { message: expect.stringContaining('FLEET_TEST_KEY') } },
      { node: 'c', revision: 1, refused: { code: 'WASM_SERVE_FLEET_FORBIDDEN' } },
    ])
    expect((await without.ask('GET', '/api')).status).toBe(200)
    const stored = readdirSync(data, { recursive: true, encoding: 'utf8' })
      .map((name) => join(data, name))
      .filter((path) => statSync(path).isFile())
      .map((path) => readFileSync(path, 'latin1'))
      .join('\n')
    expect(stored).toContain('FLEET_TEST_KEY')
    expect(stored).not.toContain(value)
  })
})

const hasRevision = (wanted: number) => (each: { readonly revision?: number }) => each.revision === wanted

/** A node, and one that cannot serve modules with 100 pages of memory. */
async function startWithSmall(rules: readonly string[]): Promise<[NodeProcess, NodeProcess]> {
  const url = urlOf(await store())
  const a = await start(url, 'a', { flags: [...POLL, ...rules] })
  const small = await start(url, 'small', { flags: [...POLL, ...rules, '--memory-max', '2MiB'] })
  await untilListed(a, 2)
  return [a, small]
}

/** What the user of a fleet with the default names may do. */
const ACL = [
  '~wasm-serve:{fleet:default}:*',
  '&wasm-serve:{fleet:default}:written',
  ...'ping time eval exists get set persist pexpire pttl unlink publish subscribe'
    .split(' ')
    .map((name) => `+${name}`),
  ...'hget hset hdel hexists hgetall hincrby lpush lrange ltrim'.split(' ').map((name) => `+${name}`),
]

/** A Sentinel that watches a primary, `main`, alone. */
async function startSentinel(primary: number): Promise<{ readonly port: number }> {
  const port = await freePort()
  const config = join(temporaryFolder(), 'sentinel.conf')
  const lines = [
    ...[`port ${port}`, 'bind 127.0.0.1', `sentinel monitor main 127.0.0.1 ${primary} 1`],
    ...['sentinel down-after-milliseconds main 500', 'sentinel failover-timeout main 3000'],
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  const child = spawn('redis-server', [config, '--sentinel'], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  child.stdout.setEncoding('utf8')
  for await (const text of child.stdout) if (text.includes('+monitor')) break
  return { port }
}

type RawClient = Awaited<ReturnType<typeof raw>>

async function headOf(client: RawClient, fleet: string) {
  const { newest } = JSON.parse((await client.hGet(`wasm-serve:{fleet:${fleet}}:head`, 'json')) ?? '')
  return newest
}

interface Tampering {
  readonly edits: string
  /** Adds a content. @returns its digest. */
  content(bytes: string | Uint8Array): string
}

/** Replaces the head as one can who may write to the store. @param change - Makes members of the new revision. */
async function tamper(client: RawClient, fleet: string, change: (state: Tampering) => object): Promise<void> {
  const keys = `wasm-serve:{fleet:${fleet}}:`
  const head = JSON.parse((await client.hGet(`${keys}head`, 'json')) ?? '')
  const added = new Map<string, Buffer>()
  const content = (bytes: string | Uint8Array) => {
    added.set(sha256(bytes), Buffer.from(bytes))
    return sha256(bytes)
  }
  const edits = (await client.get(`${keys}content:${head.newest.edits}`)) ?? ''
  const revision = head.newest.revision + 1
  const newest = { ...head.newest, revision, id: randomUUID(), ...change({ edits, content }) }
  for (const [digest, bytes] of added) await client.set(`${keys}content:${digest}`, bytes)
  const rollout = { ...head.rollout, phase: 'all' }
  const next = { ...head, tag: randomUUID(), newest, before: head.newest, rollout }
  await client.hSet(`${keys}head`, { tag: next.tag, json: JSON.stringify(next) })
  await client.publish(`${keys}written`, next.tag)
}
