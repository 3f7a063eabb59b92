import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { assembleGuest } from '../../bench/guest.ts'
import type { RouteOptions } from '../../src/options/options.ts'
import { SAME_USER } from '../support/chaos.ts'
import { forkServer } from '../support/fork-server.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/bodies.ts [--count N] [--seed N]
 *
 * Compares the answers of guests in threads, whose blocks the main thread reads and writes, with what was sent: bodies of all
 * sizes, while guests trap or never return, threads are ended, and clients go away. Writes the results to
 * docs/contribute/long-tests.md, and exits with 1 if a byte is wrong. Needs the built files.
 */

const COUNT = 1_000_000
const CLIENTS = 6
const DEADLINE_MS = 20

const LIMITS = { timeoutMs: DEADLINE_MS, bodyLimit: 1_048_576, maxQueue: 1_000 }

const ROUTES: Readonly<Record<string, Partial<RouteOptions>>> = {
  'two threads': { workers: 2 },
  'threads are ended': { workers: 2, interrupts: 'off' },
  fresh: { workers: 1, isolation: 'fresh' },
  'recycled after 20 calls': { workers: 1, recycle: 20 },
}

interface Counts {
  compared: number
  wrong: number
  /** Guests that met their deadline. */
  late: number
  trapped: number
  /** Requests whose client did not wait. */
  left: number
  /** Other answers by status, such as that of a call whose thread was ended with another call; and connections that broke off. */
  others: Map<string, number>
}

const { values } = parseArgs({
  options: { count: { type: 'string', default: String(COUNT) }, seed: { type: 'string', default: '1' } },
})
const count = Number(values.count)
const random = openRandom(Number(values.seed))
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-bodies-'))
const plugin = join(folder, 'moody.wasm')
writeFileSync(plugin, await assembleGuest('moody', '../test/guests'))
const names = Object.keys(ROUTES)
const { child, started } = forkServer({
  subprocessUser: SAME_USER,
  routes: Object.values(ROUTES).map((route, place) => ({ url: `/${place}`, plugin, ...LIMITS, ...route })),
})
const { url } = await started
const results = await Promise.all(names.map((_, place) => run(`${url}/${place}`)))
child.kill('SIGKILL')
rmSync(folder, { recursive: true })
const section = render()
console.log(section)
if (values.count === String(COUNT)) keepSection('bodies', section)
if (results.some(({ wrong }) => wrong > 0)) process.exitCode = 1

async function run(route: string): Promise<Counts> {
  const counts: Counts = { compared: 0, wrong: 0, late: 0, trapped: 0, left: 0, others: new Map() }
  const agent = new Agent({ keepAlive: true })
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let n = 0; counts.compared < count / names.length; n++)
      await askOnce(route, agent, `w${client}-${n}/`, counts)
  })
  await Promise.all(clients)
  agent.destroy()
  return counts
}

async function askOnce(route: string, agent: Agent, id: string, counts: Counts): Promise<void> {
  const chance = random()
  if (chance < 0.005) {
    const { status } = await post(route, agent, Buffer.from('L'))
    if (status === '504') counts.late++
    else countOne(counts.others, status)
  } else if (chance < 0.02) {
    const { status } = await post(route, agent, Buffer.from('T'))
    if (status === '500') counts.trapped++
    else countOne(counts.others, status)
  } else if (chance < 0.04) {
    counts.left++
    await leave(route, bodyOf(id))
  } else {
    const body = bodyOf(id)
    const { status, bytes } = await post(route, agent, body)
    if (status !== '200') {
      countOne(counts.others, status)
      return
    }
    counts.compared++
    if (bytes.equals(body)) return
    counts.wrong++
    console.log(`${route}: ${body.length} bytes of ${id} became ${bytes.length}: ${bytes.subarray(0, 40)}`)
  }
}

function countOne(counts: Map<string, number>, status: string): void {
  counts.set(status, (counts.get(status) ?? 0) + 1)
}

/** Small bodies, those around the sizes at which they take another way, and large ones. */
function bodyOf(id: string): Buffer {
  const kind = random()
  const around = (size: number) => size - 4 + Math.floor(random() * 8)
  const size =
    kind < 0.7
      ? 1 + Math.floor(random() * 300)
      : kind < 0.9
        ? around([4_096, 16_384, 65_536][Math.floor(random() * 3)] ?? 0)
        : around([131_072, 262_144, 300_000][Math.floor(random() * 3)] ?? 0)
  return Buffer.alloc(Math.max(size, id.length), id)
}

/** @returns the code of the error if the connection broke off: the server closes one that was idle for some seconds. */
function post(route: string, agent: Agent, body: Buffer): Promise<{ status: string; bytes: Buffer }> {
  return new Promise((resolve) => {
    const fail = (error: NodeJS.ErrnoException) =>
      resolve({ status: error.code ?? error.message, bytes: Buffer.alloc(0) })
    const sent = request(route, { method: 'POST', agent, headers: { 'content-length': body.length } })
    sent.on('error', fail)
    sent.on('response', (answer) => {
      buffer(answer).then((bytes) => resolve({ status: String(answer.statusCode), bytes }), fail)
    })
    sent.end(body)
  })
}

/** Sends a request, whole or in part, and closes the connection. */
async function leave(route: string, body: Buffer): Promise<void> {
  const sent = request(route, { method: 'POST', agent: false, headers: { 'content-length': body.length } })
  sent.on('error', () => undefined)
  if (random() < 0.5) sent.end(body)
  else sent.write(body.subarray(0, body.length >> 1))
  await setTimeout(random() * 3)
  sent.destroy()
}

/** Mulberry32: the same numbers for the same seed. */
function openRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

function render(): string {
  const rows = results.map(({ compared, wrong, late, trapped, left, others }, place) => {
    const rest = [...others].sort().map(([status, times]) => `${times} with ${status}`)
    return [names[place], compared, wrong, late, trapped, left, rest.join(', ') || 'none']
  })
  return `## Bodies in threads

Guests in threads answer with their input; ${CLIENTS} clients for each route compare each answer with what they sent: bodies of up to 300,000 bytes, most
of them small, the others around the sizes at which they take another way. Some guests trap, some never return and meet their deadline of
${DEADLINE_MS} ms, and some clients go away, some of them in the middle of their body (\`npx tsx test/long/bodies.ts\`).

${renderOrigin()}.

| route | answers compared | wrong | late | trapped | clients that left | other answers |
| --- | --: | --: | --: | --: | --: | --- |
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}`
}
