import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TcpProxy } from '../fleet/tcp-proxy.ts'
import { versionModule } from '../fleet/versions.ts'
import type { Random } from '../random.ts'
import { BLOCKER, chooseHostile, type HostileModule } from './hostile.ts'
import { descriptorsOf, type ProcessOf, processesOf } from './resources.ts'
import { HangError, openHttp1 } from './senders.ts'
import type { AdminAnswer, ChaosServer } from './server.ts'
import type { Tally } from './tally.ts'
import type { Versions } from './versions.ts'

/** What faults happen to. */
export interface World {
  readonly servers: readonly ChaosServer[]
  /** Between each server and the store, and between each node and the store of the fleet. */
  readonly proxies: readonly TcpProxy[]
  readonly store: StoreProcess
  readonly random: Random
  readonly tally: Tally
  readonly versions: Versions
  readonly isFleet: boolean
  /** Notes a serving process that a fault will stop or end, or may take descriptors from, and its connections. */
  harm(pid: number): void
  /** Whether the state folder has a file system of its own, which can be filled. */
  readonly canFill: boolean
  /** One change of the version at a time, so that its order is known. */
  changing: Promise<unknown>
  version: number
}

/** The store, which may be restarted. */
export interface StoreProcess {
  signal(name: NodeJS.Signals): void
  kill(): Promise<void>
  restart(): Promise<void>
}

interface Fault {
  readonly name: string
  readonly weight: number
  /** How long it lasts at most, if it has an end. */
  readonly maxMs?: number
  /** Whether it is not possible in a fleet, or only with a file system for the state folder. */
  readonly needs?: 'files' | 'space'
  /** @returns what ends it. */
  begin(world: World): Promise<(() => unknown) | undefined>
}

/** Faults at a time. */
const MOST = 3

/** Has faults happen, drawn by the seed, until the time is over or a server has ended; then ends all. @returns how many. */
export async function injectFaults(world: World, until: number): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  const { random, tally, isFleet, canFill } = world
  const possible = FAULTS.filter(({ needs }) => (needs === 'files' ? !isFleet : needs !== 'space' || canFill))
  const running = new Set<Promise<void>>()
  const over = new AbortController()
  const run = async (fault: Fault) => {
    const heal = await fault.begin(world)
    if (!heal) return
    await sleep(200 + random() * (fault.maxMs ?? 0), undefined, { signal: over.signal }).catch(
      () => undefined,
    )
    await heal()
  }
  const haveEnded = () =>
    world.servers.some(({ child }) => child.exitCode !== null || child.signalCode !== null)
  while (Date.now() < until && !haveEnded()) {
    const fault = draw(possible, random)
    counts.set(fault.name, (counts.get(fault.name) ?? 0) + 1)
    const one: Promise<void> = run(fault)
      .catch((error) => tally.problem(`${fault.name}: ${error?.stack ?? error}`))
      .finally(() => running.delete(one))
    running.add(one)
    await sleep(300 + random() * 2_500)
    while (running.size >= MOST) await Promise.race(running)
  }
  over.abort()
  await Promise.all(running)
  return counts
}

function draw(faults: readonly Fault[], random: Random): Fault {
  let rest = random() * faults.reduce((sum, { weight }) => sum + weight, 0)
  for (const fault of faults) {
    rest -= fault.weight
    if (rest < 0) return fault
  }
  throw new Error('no fault')
}

const FAULTS: readonly Fault[] = [
  {
    name: 'serving process killed',
    weight: 5,
    async begin(world) {
      await signalServing(world, 'SIGKILL')
      return undefined
    },
  },
  {
    name: 'serving process stopped',
    weight: 4,
    maxMs: 14_000,
    async begin(world) {
      const pid = await signalServing(world, 'SIGSTOP')
      return () => pid !== undefined && signal(pid, 'SIGCONT')
    },
  },
  {
    name: "guests' process killed",
    weight: 5,
    async begin(world) {
      const guest = any(guestsOf(world), world.random)
      if (guest) signal(guest.pid, 'SIGKILL')
      return undefined
    },
  },
  {
    name: "guests' process stopped",
    weight: 4,
    maxMs: 6_000,
    async begin(world) {
      const guest = any(guestsOf(world), world.random)
      if (!guest) return undefined
      signal(guest.pid, 'SIGSTOP')
      return () => signal(guest.pid, 'SIGCONT')
    },
  },
  { name: 'SIGHUP', weight: 3, begin: async (world) => signalPrimary(world, 'SIGHUP') },
  { name: 'SIGUSR2', weight: 2, begin: async (world) => signalPrimary(world, 'SIGUSR2') },
  {
    name: 'new version',
    weight: 6,
    async begin(world) {
      await changeVersion(world)
      return undefined
    },
  },
  {
    name: 'rollback, or back to the configuration',
    weight: 2,
    async begin(world) {
      await (world.isFleet ? changeVersion(world) : resetVersion(world))
      return undefined
    },
  },
  {
    name: 'configuration file',
    weight: 4,
    maxMs: 4_000,
    needs: 'files',
    async begin({ servers: [server], random }) {
      const timeoutMs = 1_000 + Math.floor(random() * 1_000)
      const extra = { url: '/extra', plugin: 'echo.wasm', function: 'echo' }
      server?.configure((config) => ({
        ...config,
        routes: [
          ...config.routes.map((route) =>
            'timeoutMs' in route ? route : { ...route, timeoutMs: undefined },
          ),
          { ...extra, workers: 1, timeoutMs },
        ],
      }))
      return () => server?.configure()
    },
  },
  {
    name: 'unusable configuration file',
    weight: 1,
    maxMs: 4_000,
    needs: 'files',
    async begin({ servers: [server] }) {
      server?.configure((config) => ({ ...config, routes: [{ url: '/', plugin: 'missing.wasm' }] }))
      return () => server?.configure()
    },
  },
  {
    name: 'new certificate',
    weight: 2,
    async begin(world) {
      for (const server of world.servers) server.renewCertificate()
      return signalPrimary(world, 'SIGUSR2')
    },
  },
  ...(['cut', 'silence', 'delay', 'halfClose'] as const).map((what): Fault => {
    return {
      name: `store: ${what === 'halfClose' ? 'half closed' : what}`,
      weight: 2,
      maxMs: 5_000,
      async begin({ proxies, random }) {
        const proxy = any(proxies, random)
        proxy?.[what]()
        return () => proxy?.heal()
      },
    }
  }),
  {
    name: 'store stopped',
    weight: 2,
    maxMs: 5_000,
    async begin({ store }) {
      store.signal('SIGSTOP')
      return () => store.signal('SIGCONT')
    },
  },
  {
    name: 'store killed and started',
    weight: 2,
    maxMs: 4_000,
    async begin({ store }) {
      await store.kill()
      return () => store.restart()
    },
  },
  {
    name: 'no space for the state folder',
    weight: 2,
    maxMs: 6_000,
    needs: 'space',
    async begin({ servers, random }) {
      const server = any(servers, random)
      const filler = join(server?.folders.state ?? '', '..', 'filler')
      try {
        writeFileSync(filler, Buffer.alloc(256 * 2 ** 20))
      } catch {
        // What fits is written.
      }
      return () => rmSync(filler, { force: true })
    },
  },
  {
    name: 'few descriptors',
    weight: 2,
    maxMs: 5_000,
    async begin(world) {
      const pid = await chooseServing(world)
      if (pid === undefined) return undefined
      world.harm(pid)
      const limit = (value: number) => limitDescriptors(pid, value)
      const [before] = limit(descriptorsOf(pid).length + 3)
      return () => before !== undefined && limit(before)
    },
  },
  { name: 'hostile module', weight: 8, begin: (world) => attack(world, chooseHostile(world.random)) },
  { name: 'a loop on the event loop', weight: 1, begin: (world) => attack(world, BLOCKER) },
]

/** @returns the id of the process. */
async function signalServing(world: World, name: NodeJS.Signals): Promise<number | undefined> {
  const pid = await chooseServing(world)
  if (pid === undefined) return undefined
  world.harm(pid)
  signal(pid, name)
  return pid
}

/** One that serves, and not one that starts: five failed starts in a row end the server, as they should. */
async function chooseServing({ servers, random }: World): Promise<number | undefined> {
  const server = any(servers, random)
  const { body } = (await server?.ask('GET', '/api/processes')) ?? { body: [] }
  const serving = body.filter(({ state }: { state: string }) => state === 'serving')
  return any(serving as readonly { readonly pid: number }[], random)?.pid
}

function guestsOf({ servers }: World): ProcessOf[] {
  return servers.flatMap(({ pid }) => processesOf(pid)).filter(({ kind }) => kind === 'guest')
}

async function signalPrimary({ servers, random }: World, name: NodeJS.Signals): Promise<undefined> {
  any(servers, random)?.child.kill(name)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

/** @returns the soft limit before. */
function limitDescriptors(pid: number, soft: number): number[] {
  try {
    const shown = execFileSync('prlimit', [
      '--pid',
      String(pid),
      '--nofile',
      '--noheadings',
      '--output',
      'SOFT',
    ])
    execFileSync('prlimit', ['--pid', String(pid), `--nofile=${soft}:`])
    return [Number(shown)]
  } catch {
    return [] // it has ended
  }
}

/** Puts a new version, or an earlier one again, and waits for the answer. */
export async function changeVersion(world: World): Promise<AdminAnswer> {
  const isOld = world.version > 1 && world.random() < 0.3
  const version = isOld ? 1 + Math.floor(world.random() * world.version) : ++world.version
  const bytes = versionModule(version)
  const digest = createHash('sha256').update(bytes).digest('hex')
  const isRollback = isOld && world.random() < 0.5
  return change(world, version, (server) =>
    isRollback
      ? server.ask('POST', '/api/plugins/version/rollback', { digest })
      : server.ask('PUT', '/api/plugins/version', bytes),
  )
}

export function resetVersion(world: World): Promise<AdminAnswer> {
  return change(world, 0, (server) => server.ask('DELETE', '/api/changes'))
}

function change(
  world: World,
  version: number,
  make: (server: ChaosServer) => Promise<AdminAnswer>,
): Promise<AdminAnswer> {
  const { versions, tally } = world
  const changed = world.changing.then(async () => {
    const server = any(world.servers, world.random)
    if (!server) throw new Error('no server')
    const settle = versions.change(version)
    const answer = await make(server)
    const end = `${answer.status} ${answer.code ?? ''}`.trim()
    settle(answer.status < 300)
    tally.count('change', end)
    if (!CHANGES.has(end))
      tally.problem(`change to ${version}: ${end} ${JSON.stringify(answer.body).slice(0, 300)}`)
    return answer
  })
  world.changing = changed.catch(() => undefined)
  return changed
}

/** What a change may end with. 404: of a rollback to a version that is not kept. */
const CHANGES = new Set([
  '200',
  '201',
  '404 ADMIN_UNKNOWN',
  '409 ADMIN_CONFLICT',
  '409 FLEET_CHANGED',
  '503 CHANGE_REFUSED',
  '503 FLEET_UNAVAILABLE',
  '503 INSTANCE_START_FAILED',
  '503 PROCESS_ENDED',
  '503 STORE_UNAVAILABLE',
  '507 STATE_UNWRITABLE',
])

let attacks = 0

/** Uploads a module, calls it through its route, and removes it. */
export async function attack(world: World, module: HostileModule): Promise<undefined> {
  const { servers, random, tally } = world
  const server = any(servers, random)
  if (!server) return
  const name = `hostile-${++attacks}`
  const headers = module.encoding === undefined ? {} : { 'content-encoding': module.encoding }
  const noteChange = (what: string, { status, code }: AdminAnswer) => {
    tally.count(`hostile modules, ${what}`, `${status} ${code ?? ''}`.trim())
    if (status >= 500 && ![503, 507].includes(status))
      tally.problem(`${module.name}, ${what}: ${status} ${code}`)
    return status < 300
  }
  if (!noteChange('uploaded', await server.ask('PUT', `/api/plugins/${name}`, module.bytes(), headers)))
    return
  const route = { plugin: name, url: `/${name}`, function: 'run', ...module.route }
  if (noteChange('served', await server.ask('POST', '/api/routes', route))) {
    const sender = openHttp1(server.target)
    for (let call = 0; call < 5; call++) {
      try {
        const { status, body } = await sender.send(`/${name}`, 'hostile')
        const code = status < 400 ? '' : (/"code":"WASM_SERVE_(\w+)"/.exec(body)?.[1] ?? '')
        tally.count('hostile modules, called', `${status} ${code}`.trim())
      } catch (error) {
        tally.count('hostile modules, called', module === BLOCKER ? 'lost with its process' : 'lost')
        if (error instanceof HangError) tally.problem(`${module.name}: no answer within the limit`)
      }
    }
    sender.close()
  }
  const path = `/api/plugins/${name}?routes=true`
  for (let tries = 0; tries < 20; tries++) {
    if (noteChange('removed', await server.ask('DELETE', path))) return
    await sleep(500)
  }
}

function any<Item>(items: readonly Item[], random: Random): Item | undefined {
  return items[Math.floor(random() * items.length)]
}
