import { setTimeout as sleep } from 'node:timers/promises'
import { fireSockets, refuseFailures, type SocketLoad, startSocketLoad } from '../load/sockets.ts'
import { COMMAND, ours, type Scenario } from '../scenario.ts'
import { type ServerProcess, startServer } from '../server-process.ts'
import type { ManyPlugins } from './modules.ts'

/** A load of all plug-ins, the k-th of them with a share of 1/k, and the same of one plug-in. */
export interface ZipfRun {
  readonly server: string
  /** The runs that were made one after the other have the same number. */
  readonly number: number
  readonly requestsPerSecond: number
  readonly cpuMicrosPerRequest: number
  readonly memoryBytes: number
}

export const ONE = 'one plug-in'

/** Instances that may be open: the default, and few. */
const OPEN = [3_000, 500] as const

/** As many plug-ins as may be open, so that none is opened again. */
export const FIRST = `the first ${OPEN[0]}`

/** All plug-ins, by the number of instances that may be open. */
export const ALL: readonly string[] = OPEN.map((count) => `all, \`--max-instances ${count} --sleep\``)

const CONNECTIONS = 100

/** Measures servers in turns. Each stays for all runs: its first calls are not measured. */
export async function measureZipf(
  plugins: ManyPlugins,
  rounds: number,
  seconds: number,
  progress: (line: string) => void,
): Promise<ZipfRun[]> {
  const ranked = rank(plugins)
  const paths = zipfPaths(ranked)
  const open = ranked.slice(0, OPEN[0])
  const only = `${plugins.folder}/${plugins.small[0]}.wasm`
  const wanted = [
    { name: ONE, args: [only], paths: () => '/', called: [] },
    { name: FIRST, args: [plugins.folder], paths: zipfPaths(open), called: open },
    ...OPEN.map((count, i) => ({
      name: ALL[i] ?? '',
      args: [plugins.folder, '--max-instances', `${count}`, '--sleep'],
      paths,
      called: ranked.slice(0, count),
    })),
  ]
  const servers: { name: string; server: ServerProcess; paths: () => string }[] = []
  const runs: ZipfRun[] = []
  try {
    for (const { name, args, paths, called } of wanted) {
      const scenario: Scenario = { ...ours(name), command: [process.execPath, ...COMMAND, ...args] }
      const server = await startServer(scenario)
      servers.push({ name, server, paths })
      await callAll(server, called)
      await runOnce(server, paths, WARM_UP * seconds)
      progress(`${name}: warm`)
    }
    for (let number = 1; number <= rounds; number++) {
      for (const { name, server, paths } of servers) {
        runs.push({ server: name, number, ...(await runOnce(server, paths, seconds)) })
        const { requestsPerSecond, cpuMicrosPerRequest } = runs.at(-1) ?? {}
        progress(
          `${name}: ${requestsPerSecond?.toFixed(0)} requests/s, ${cpuMicrosPerRequest?.toFixed(1)} us CPU`,
        )
      }
    }
    return runs
  } finally {
    for (const { server } of servers) server.stop()
  }
}

/** Calls plug-ins, each once at least: the load reaches the last of them only after minutes. */
async function callAll({ url }: ServerProcess, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  let next = 0
  const load: SocketLoad = {
    ...{ url, connections: CONNECTIONS },
    request: (id) => ({ path: `/${names[next++ % names.length]}`, body: bodyOf(id) }),
    isRight: isAnswer,
  }
  const running = await startSocketLoad(load)
  try {
    running.begin()
    while (next < names.length) await sleep(100)
    refuseFailures(await running.end())
  } finally {
    running.stop()
  }
}

/** The warm-up of a run of one second, in seconds. */
const WARM_UP = 5

async function runOnce(server: ServerProcess, paths: () => string, seconds: number) {
  await server.idle()
  const before = server.cpuMicros()
  let sent = 0
  const { times } = await fireSockets(
    {
      ...{ url: server.url, connections: CONNECTIONS },
      request(id) {
        sent++
        return { path: paths(), body: bodyOf(id) }
      },
      isRight: isAnswer,
    },
    { seconds },
  )
  const memoryBytes = server.memoryBytes()
  await server.idle()
  return {
    requestsPerSecond: times.length / seconds,
    cpuMicrosPerRequest: (server.cpuMicros() - before) / sent,
    memoryBytes,
  }
}

/** The plug-ins in the order of their shares: the large ones evenly among the others. */
function rank({ small, large }: ManyPlugins): string[] {
  const apart = Math.ceil(small.length / large.length)
  return small.flatMap((name, i) => {
    const between = i % apart === apart - 1 ? large[(i + 1) / apart - 1] : undefined
    return between === undefined ? [name] : [between, name]
  })
}

/** Draws paths of plug-ins: of the k-th with a probability of 1/k, as far as all together allow. */
function zipfPaths(names: readonly string[]): () => string {
  let total = 0
  const sums = names.map((_, i) => {
    total += 1 / (i + 1)
    return total
  })
  return () => {
    const drawn = Math.random() * total
    let [low, high] = [0, sums.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) < drawn) low = middle + 1
      else high = middle
    }
    return `/${names[low]}`
  }
}

function isAnswer(body: string, answer: string): boolean {
  return answer === answerOf('small', body) || answer === answerOf('large', body)
}

export function bodyOf(id: number): string {
  return `client ${id}`
}

/** The right answer of the small plug-ins, which greet, and of the large ones, which echo. */
export function answerOf(kind: 'small' | 'large', body: string): string {
  return kind === 'small' ? `{"message":"🦀 Hello ${body}"}` : body
}
