import { post } from './client.ts'
import { renderNumber } from './origin.ts'
import { isRight, type Scenario } from './scenario.ts'
import { type Ending, type ServerProcess, startServer } from './server-process.ts'

/** The outcome of the requests to one process. */
export interface UnlockedRun {
  readonly right: number
  /** Status 200 with another body. */
  readonly wrong: number
  /** Another status. */
  readonly refused: number
  /** No answer. */
  readonly lost: number
  /** How and after how long the process ended, if it ended during the requests. */
  readonly ending?: Pick<Ending, 'code' | 'signal'> & { readonly seconds: number; readonly reason: string }
}

/** Number of concurrent clients, each with its own body. */
const CLIENTS = 100

/** Asks some processes of a server whose calls are not kept apart, and looks at each answer. */
export async function measureUnlocked(
  scenario: Scenario,
  processes: number,
  seconds: number,
  progress: (line: string) => void,
): Promise<UnlockedRun[]> {
  const runs: UnlockedRun[] = []
  for (let i = 0; i < processes; i++) {
    const run = await measureOnce(scenario, seconds)
    runs.push(run)
    const end = run.ending ? `ended after ${run.ending.seconds.toFixed(2)} s` : 'lived'
    progress(`${scenario.name}: ${run.right} right, ${run.wrong} wrong, ${run.refused} refused; ${end}`)
  }
  return runs
}

async function measureOnce(scenario: Scenario, seconds: number): Promise<UnlockedRun> {
  const server = await startServer(scenario)
  const begun = performance.now()
  const until = begun + seconds * 1_000
  let ended: (Ending & { at: number }) | undefined
  server.ended.then((ending) => {
    ended = { ...ending, at: performance.now() }
  })
  const counts = { right: 0, wrong: 0, refused: 0, lost: 0 }
  const client = async (name: number) => {
    for (let i = 0; performance.now() < until && !ended; i++) {
      counts[await ask(scenario, server, `${scenario.body} ${name} ${i}`)]++
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, name) => client(name)))
  const ending = ended as typeof ended // TypeScript does not see that a callback sets it
  server.stop()
  if (!ending) return counts
  const { code, signal, printed, at } = ending
  return { ...counts, ending: { code, signal, seconds: (at - begun) / 1_000, reason: reasonIn(printed) } }
}

async function ask(scenario: Scenario, server: ServerProcess, body: string) {
  try {
    const answer = await post(server.url, body, { signal: AbortSignal.timeout(PATIENCE_MS) })
    if (answer.status !== 200) return 'refused'
    return isRight(scenario, body, answer.body) ? 'right' : 'wrong'
  } catch {
    return 'lost' // the way it was lost makes no difference
  }
}

const PATIENCE_MS = 2_000

/** The first line of a Go program's output with the reason of its end. */
function reasonIn(printed: string): string {
  return (
    /^(?:panic|fatal error|SIG\w+|unexpected).*$/m.exec(printed)?.[0].slice(0, 120) ?? 'it did not say why'
  )
}

export function renderUnlocked(name: string, runs: readonly UnlockedRun[]): string {
  const rows = runs.map(({ right, wrong, refused, lost, ending }, i) => {
    const end = ending
      ? `after ${renderNumber(ending.seconds, 2)} s, ${ending.signal ?? `code ${ending.code}`}: \`${ending.reason}\``
      : 'no'
    const counts = [right, wrong, refused, lost].map((count) => renderNumber(count, 0))
    return `| ${[i + 1, ...counts, end].join(' | ')} |`
  })
  return [
    `${name}, ${CLIENTS} clients, each with its own bodies:`,
    '',
    '| process | right answers | wrong answers | other status | no answer | did the process end? |',
    '| ---: | ---: | ---: | ---: | ---: | --- |',
    ...rows,
  ].join('\n')
}
