import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { temporaryFolder } from '../support/admin-api.ts'
import { run, start } from '../support/cli-process.ts'
import { freePort, startRedis } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

interface Service {
  readonly image: string
  readonly command: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly user?: string
  readonly ports?: readonly string[]
  readonly volumes: readonly string[]
  readonly networks: readonly string[]
  readonly depends_on?: Readonly<Record<string, object>>
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly networks: object
  readonly volumes: object
}

const { services, networks, volumes }: Compose = parse(
  readFileSync(join(ROOT, 'deploy/compose/compose.yaml'), 'utf8'),
  { merge: true },
)

const STORE = 'redis://store:6379'
const TOKEN = 'sesame-0123456789'
const nodes = Object.values(services).filter(({ command }) => command.includes('--fleet'))

/** What a node is started with, in place of the image: folders of the machine, another store, a port of its own. */
async function nodeOf({ command, environment = {} }: Service, store: string) {
  const folders: Readonly<Record<string, string>> = {
    '/plugins': join(ROOT, 'plugins/hello'),
    '/state': join(temporaryFolder(), 'state'),
    '/cache': join(temporaryFolder(), 'cache'),
    [STORE]: store,
  }
  const words = command.map((word) => folders[word] ?? word)
  const port = await freePort()
  const variables = Object.entries(environment).map(([name, value]) => [
    name,
    value.replace(/\$\{.*\}/, TOKEN),
  ])
  const env = {
    ...Object.fromEntries(variables),
    WASM_SERVE_PORT: `${port}`,
    WASM_SERVE_ADMIN: '127.0.0.1:0',
  }
  return { words, env, port }
}

test('the Compose file has two nodes, and names what it uses', () => {
  expect(nodes).toHaveLength(2)
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const { image } of nodes) expect(image).toMatch(new RegExp(`:${version}\\}$`))
  for (const { ports = [] } of nodes) expect(ports[0]).toMatch(/^127\.0\.0\.1:\d+:8080$/)
  const all = Object.values(services)
  const used = new Set(all.flatMap((service) => service.volumes.map((volume) => volume.split(':')[0])))
  expect([...used].sort()).toEqual(Object.keys(volumes).sort())
  expect(new Set(all.flatMap((service) => service.networks))).toEqual(new Set(Object.keys(networks)))
  for (const { depends_on = {} } of nodes)
    expect(Object.keys(depends_on).every((name) => name in services)).toBe(true)
})

test.each(
  nodes,
)('wasm-serve accepts the command line of the node $environment.WASM_SERVE_FLEET_NODE', async (node) => {
  const { words, env } = await nodeOf(node, 'redis://127.0.0.1:6379')
  const { code, stdout, stderr } = await run(['--print-config', ...words], env)
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('redis://127.0.0.1:6379')
})

describeWith(['valkey-server'], () => {
  test('both nodes serve, and are one fleet', async () => {
    const valkey = await startRedis([], undefined, 'valkey-server')
    onTestFinished(() => valkey.stop())
    const store = `redis://127.0.0.1:${valkey.port}`
    for (const node of nodes) {
      const { words, env } = await nodeOf(node, store)
      const url = await start(words, env).listening()
      expect(await (await fetch(`${url}/hello`, { method: 'POST', body: 'Bob' })).text()).toContain(
        'Hello Bob',
      )
    }
    const { code, stdout } = await run(['fleet', 'status', '--fleet', store])
    expect(code).toBe(0)
    expect(stdout).toMatch(/\bone\b[\s\S]*\btwo\b/)
  })
})
