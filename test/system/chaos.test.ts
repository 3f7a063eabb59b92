import { expect, test } from 'vitest'
import { expectWell } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { type LoadAnswer, startLoad } from '../support/load.ts'
import { type ServerProcess, startServerProcess } from '../support/serve-process.ts'

/*
 * All that can go wrong, at once and at random, for a while. By hand, for longer, or once more as it was:
 *
 *   npm run build && CHAOS_SECONDS=600 CHAOS_SEED=1 npx vitest run test/system/chaos.test.ts
 */

const SECONDS = Number(process.env.CHAOS_SECONDS ?? 24)
const SEED = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 32))

/** No request may take so long: all limits of the server together are far less. */
const HANG_MS = 60_000

/** What a request asks of zoo.wat, how many of 1,000 do so on the event loop and in threads, and how they may end. */
const MOODS = [
  { begin: 'x', inline: 950, threads: 930, ends: ['200'] },
  { begin: `x${'x'.repeat(40_000)}`, inline: 10, threads: 10, ends: ['200'] },
  { begin: 'L', inline: 0, threads: 20, ends: ['504 DEADLINE_EXCEEDED'] },
  { begin: 'T', inline: 20, threads: 20, ends: ['500 GUEST_TRAP'] },
  { begin: 'M', inline: 5, threads: 5, ends: ['500 GUEST_TRAP'] },
  { begin: 'E', inline: 10, threads: 5, ends: ['409'] },
  { begin: 'P', inline: 5, threads: 2, ends: ['502 OUTPUT_TOO_LARGE'] },
  { begin: 'H die ', inline: 0, threads: 7, ends: ['500 WORKER_LOST', '504 DEADLINE_EXCEEDED'] },
  { begin: 'H eat ', inline: 0, threads: 1, ends: ['500 WORKER_LOST', '504 DEADLINE_EXCEEDED'] },
] as const

/** How every call in a thread may end. */
const BUSY = ['503 QUEUE_FULL', '503 QUEUE_SLOW']

const FUNCTIONS = `export default { env: { relay(context, input) {
  if (context.read(input).text().startsWith('H die')) process.exit(1)
  for (const all = []; ; ) all.push(new Array(1e4).fill(0.5)) // larger pieces Node.js cannot refuse: the process would end
} } }`

function routes() {
  const zoo = { plugin: guest('zoo'), functions: file('chaos.mjs', FUNCTIONS), memoryMax: 256 }
  return [
    { ...zoo, url: '/inline' },
    { ...zoo, url: '/threads', workers: 1, timeoutMs: 500 },
    { ...zoo, url: '/two', workers: 2, timeoutMs: 500 },
  ]
}

test(
  'in chaos no answer is wrong, no request hangs, every failure has its name, and nothing stays',
  async () => {
    const server = await startServerProcess({ routes: routes() })
    const random = randomOf(SEED)
    const seed = `CHAOS_SEED=${SEED}`
    await rage(server, random, SECONDS / 3, seed)
    const before = await server.measure()
    await rage(server, random, (SECONDS * 2) / 3, seed)
    const after = await server.measure()
    expect(after.warnings, seed).toEqual([])
    expect(after.handles, seed).toEqual(before.handles)
    expect(after.memory.rss / before.memory.rss, seed).toBeLessThan(1.4)
    expect(after.memory.heapUsed / before.memory.heapUsed, seed).toBeLessThan(1.4)
  },
  SECONDS * 1_000 + 4 * HANG_MS,
)

/** 100 clients on three routes, while the app is replaced again and again. */
async function rage(server: ServerProcess, random: () => number, seconds: number, seed: string) {
  const outcomes = new Map<string, number>()
  const note = ({ status, body }: LoadAnswer, sent: string) => {
    const code =
      status !== 409 && status >= 400 ? ` ${JSON.parse(body).code.slice('WASM_SERVE_'.length)}` : ''
    const outcome = `${moodOf(sent)?.begin.slice(0, 6)}: ${status}${code}`
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  const loads = [
    { path: '/inline', where: 'inline', connections: 34 },
    { path: '/threads', where: 'threads', connections: 33 },
    { path: '/two', where: 'threads', connections: 33 },
  ].map(({ path, where, connections }) => {
    const body = (id: string) => choose(random, where as 'inline' | 'threads') + id
    return startLoad({ url: server.url + path, connections, body, onAnswer: note })
  })

  const until = performance.now() + seconds * 1_000
  while (performance.now() < until) {
    expect(await server.replace({ routes: routes() }), seed).toBeUndefined()
    await Promise.all(loads.map((load) => inTime(load.answered(30), seed)))
  }
  for (const load of loads) {
    expect(await inTime(load.stop(), seed), seed).toMatchObject({
      wrong: 0,
      resets: 0,
      refused: 0,
      closing: 0,
    })
  }
  expect(
    [...outcomes].filter(([outcome]) => !isExpected(outcome)),
    seed,
  ).toEqual([])
  for (const path of ['/two', '/inline']) await expectWell(server.url, path)
}

function isExpected(outcome: string): boolean {
  return MOODS.some(({ begin, ends }) =>
    [...ends, ...BUSY].some((end) => outcome === `${begin.slice(0, 6)}: ${end}`),
  )
}

function moodOf(body: string) {
  return MOODS.findLast(({ begin }) => body.startsWith(begin))
}

function choose(random: () => number, where: 'inline' | 'threads'): string {
  let rest = random() * MOODS.reduce((sum, mood) => sum + mood[where], 0)
  for (const mood of MOODS) {
    rest -= mood[where]
    if (rest < 0) return mood.begin
  }
  return 'x'
}

/** The same numbers for the same seed, from 0 to 1. (mulberry32) */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** @throws if it takes so long that a request must hang. */
async function inTime<Value>(promise: Promise<Value>, seed: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`a request hangs (${seed})`)), HANG_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
