import { fileURLToPath } from 'node:url'
import type { RouteOptions } from '../../src/options/options.ts'
import type { ServerProcess } from './fork-server.ts'
import { type LoadAnswer, startLoad } from './load.ts'

/*
 * All that can go wrong, at once and at random. For tests and for the bench: this file imports nothing of Vitest.
 */

/** No request may take so long: all limits of the server together are far less. */
export const HANG_MS = 60_000

/** A request for zoo.wat, its frequency per 1,000 on the event loop and in threads, and its permitted outcomes. */
const MOODS = [
  { begin: 'x', inline: 950, threads: 930, ends: ['200'] },
  { begin: `x${'x'.repeat(40_000)}`, inline: 10, threads: 10, ends: ['200'] },
  { begin: 'L', inline: 0, threads: 20, ends: ['504 DEADLINE_EXCEEDED'] },
  { begin: 'T', inline: 20, threads: 20, ends: ['500 GUEST_TRAP'] },
  { begin: 'M', inline: 5, threads: 5, ends: ['500 GUEST_TRAP', '504 DEADLINE_EXCEEDED'] },
  { begin: 'E', inline: 10, threads: 5, ends: ['409'] },
  { begin: 'P', inline: 5, threads: 2, ends: ['502 OUTPUT_TOO_LARGE'] },
  { begin: 'H die ', inline: 0, threads: 7, ends: ['500 WORKER_LOST', '504 DEADLINE_EXCEEDED'] },
  { begin: 'H eat ', inline: 0, threads: 1, ends: ['500 WORKER_LOST', '504 DEADLINE_EXCEEDED'] },
] as const

/** Permitted outcomes of every call in a thread. */
const BUSY = ['503 QUEUE_FULL', '503 QUEUE_SLOW']

/** The path of a module of host functions for zoo.wat: an input with the prefix `H die` ends the thread. */
export const CHAOS_FUNCTIONS = fileURLToPath(new URL('chaos-functions.mjs', import.meta.url))

/** @param plugin - Path of zoo.wat, assembled. @param withProcesses - Whether one of them has processes. */
export function chaosRoutes(plugin: string, withProcesses = false): RouteOptions[] {
  const zoo = { plugin, functions: CHAOS_FUNCTIONS, memoryMax: 256 }
  return [
    { ...zoo, url: '/inline' },
    { ...zoo, url: '/threads', workers: 1, timeoutMs: 500 },
    { ...zoo, url: '/two', workers: 2, timeoutMs: 500 },
    ...(withProcesses
      ? [{ ...zoo, url: '/processes', engine: 'subprocess' as const, workers: 1, timeoutMs: 500 }]
      : []),
  ]
}

/** Options of processes that read files of the current user. */
export const SAME_USER = `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`

/** Answers that each route gives in a round. */
const ANSWERS = 30

/**
 * Has 100 clients on the routes. Each round replaces the app, and then waits until each route has given some
 * more answers.
 *
 * @param server - Serves `routes`.
 * @param random - Generates the requests of the clients.
 * @returns descriptions of violations: wrong answers, broken connections, failures that the requests did not cause.
 * @throws if a request hangs.
 */
export async function rage(
  server: ServerProcess,
  routes: RouteOptions[],
  random: () => number,
  rounds: number,
): Promise<string[]> {
  const problems: string[] = []
  const note = ({ status, body }: LoadAnswer, sent: string) => {
    const code =
      status !== 409 && status >= 400 ? ` ${JSON.parse(body).code.slice('WASM_SERVE_'.length)}` : ''
    const end = `${status}${code}`
    if (!isExpected(sent, end) && !BUSY.includes(end)) problems.push(`${sent.slice(0, 6)}: ${end}`)
  }
  const clients = [
    { path: '/inline', where: 'inline', connections: 34 },
    { path: '/threads', where: 'threads', connections: 33 },
    { path: '/two', where: 'threads', connections: 33 },
    { path: '/processes', where: 'threads', connections: 33 },
  ] as const
  const served = clients.filter(({ path }) => routes.some(({ url }) => url === path))
  const loads = served.map(({ path, where, connections }) => {
    const body = (id: string) => `${chooseMood(random, where)}${id}`
    return { path, load: startLoad({ url: server.url + path, connections, body, onAnswer: note }) }
  })
  for (let round = 0; round < rounds; round++) {
    const failure = await server.replace({ routes, subprocessUser: SAME_USER })
    if (failure !== undefined) problems.push(`the app was not replaced: ${failure}`)
    await Promise.all(loads.map(({ path, load }) => inTime(path, load.answered(ANSWERS))))
  }
  for (const { path, load } of loads) {
    const { wrong, resets, refused, closing } = await inTime(path, load.stop())
    for (const [name, count] of Object.entries({ wrong, resets, refused, closing })) {
      if (count > 0) problems.push(`${name}: ${count}`)
    }
  }
  return problems
}

/** Whether a request with this body, for zoo.wat, may end so: a status, and the code of a failure. */
export function isExpected(sent: string, end: string): boolean {
  const ends: readonly string[] = MOODS.findLast(({ begin }) => sent.startsWith(begin))?.ends ?? []
  return ends.includes(end)
}

/** The beginning of a body for zoo.wat, which says what the guest does. */
export function chooseMood(random: () => number, where: 'inline' | 'threads'): string {
  let rest = random() * MOODS.reduce((sum, mood) => sum + mood[where], 0)
  for (const mood of MOODS) {
    rest -= mood[where]
    if (rest < 0) return mood.begin
  }
  return 'x'
}

/** @throws if it takes so long that a request must hang. */
async function inTime<Value>(path: string, promise: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`a request for ${path} hangs`)), HANG_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
