import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CHAOS_FUNCTIONS } from '../test/support/chaos.ts'
import { startLoad } from '../test/support/load.ts'
import { post } from './client.ts'
import { assembleGuestFile } from './guest.ts'
import { COMMAND } from './scenario.ts'
import { type ServerProcess, startServer } from './server-process.ts'
import { median, percentile } from './statistics.ts'

/** The inputs that make `test/guests/zoo.wat` fail, by kind of failure. */
const FAULTS = { 'never return': 'L', 'fill all memory and trap': 'M', 'end their thread': 'H die' }

/** The input that makes it compute for some milliseconds, and echo. */
const WORK = 'W'

/** The behaviour of the faulty guests, in the order of {@link measureNeighbours}. */
export const NEIGHBOURS = Object.keys(FAULTS)

/** Routes of the same server, of a guest that echoes: in a thread, and on the event loop. */
const OTHERS = ['/threads', '/inline']

/** Windows of each kind, in turns. */
const WINDOWS = 3

/** Answers of each other route in a window. */
const ANSWERS = 400

/** Connections on each other route. */
const CONNECTIONS = 4

/** Clients on the route whose guests fail or work. */
const NOISY_CLIENTS = 2

/**
 * Measures how long the slowest answers of other routes take beside guests that fail, and beside guests that keep a
 * thread as busy and are well.
 *
 * @returns p99 beside the faulty guests to p99 beside the others, for each kind of fault.
 * @throws if a neighbouring route gives no answer or a wrong one, or if a faulty guest does not fail.
 */
export async function measureNeighbours(): Promise<number[]> {
  const server = await startNeighbours()
  try {
    await p99Beside(WORK, server) // V8 warms up
    const ratios: number[] = []
    for (const fault of Object.values(FAULTS)) {
      const [besideWork, besideFault]: [number[], number[]] = [[], []]
      for (let window = 0; window < WINDOWS; window++) {
        besideWork.push(await p99Beside(WORK, server))
        besideFault.push(await p99Beside(fault, server))
      }
      ratios.push(median(besideFault) / median(besideWork))
    }
    return ratios
  } finally {
    server.stop()
  }
}

async function startNeighbours(): Promise<ServerProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-neighbours-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'routes.json')
  const zoo = await assembleGuestFile('zoo', '../test/guests')
  const echo = await assembleGuestFile('echo', '../test/guests')
  const routes = [
    { url: '/zoo', plugin: zoo, functions: CHAOS_FUNCTIONS, workers: 1, timeoutMs: 300 },
    { url: '/threads', plugin: echo, workers: 1, timeoutMs: 20_000 },
    { url: '/inline', plugin: echo },
  ]
  writeFileSync(file, JSON.stringify({ routes }))
  return startServer({
    name: 'neighbours',
    command: [process.execPath, ...COMMAND, '-c', file],
    path: '/',
  })
}

async function p99Beside(noise: string, server: ServerProcess): Promise<number> {
  let isOver = false
  const noisy = Array.from({ length: NOISY_CLIENTS }, async () => {
    while (!isOver) await makeNoise(noise, server)
  })
  const measured = Promise.all(OTHERS.map((path) => measure(path, server))).finally(() => {
    isOver = true
  })
  const [times] = await Promise.all([measured, ...noisy])
  return percentile(times.flat(), 99)
}

async function makeNoise(noise: string, server: ServerProcess): Promise<void> {
  const { status, body } = await post(new URL('/zoo', server.url).href, noise)
  const isAsMeant = noise === WORK ? status === 200 && body === WORK : status >= 500
  if (!isAsMeant) throw new Error(`unexpected answer of the guest to "${noise}": ${status} ${body}`)
}

/** Latencies of the answers of a route, in ms; each request has its own body, which the answer must contain. */
async function measure(path: string, server: ServerProcess): Promise<number[]> {
  const times: number[] = []
  const load = startLoad({
    url: new URL(path, server.url).href,
    connections: CONNECTIONS,
    body: (id) => `${path} ${id}`,
    onAnswer: (_answer, _sent, ms) => times.push(ms),
  })
  await load.answered(ANSWERS)
  const { wrong, non2xx, resets, refused } = await load.stop()
  if (wrong + non2xx + resets + refused > 0) throw new Error(`${path}: ${JSON.stringify(load.counts)}`)
  return times
}
