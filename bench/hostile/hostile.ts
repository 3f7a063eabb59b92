import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench } from '../bench.ts'
import { renderNumber } from '../origin.ts'
import { harmless, KINDS, type Kind, WAYS, type Way } from './kinds.ts'
import { codeOf, LIMIT_MS, type Measured, startVictim, upload, type Victim } from './victim.ts'

/** The effects of a hostile module on other routes, and of a harmless one of the same size. */
export interface HostileRow {
  readonly kind: string
  readonly bytes: number
  readonly way: Way
  readonly hostile: Measured
  readonly harmless: Measured
}

/** Calls of a module, a second. */
const CALLS_PER_SECOND = 10

/** Maximum time that a change may block the event loop. */
const MAX_HELD_MS = 20

export const hostile: Bench = {
  name: 'hostile',
  minutes: 10,
  async run({ seconds, quick }, progress) {
    const used = seconds ?? (quick ? 1 : 2)
    const rows = await measureHostile(used * 1_000, progress)
    return { args: ` --seconds ${used}`, markdown: renderHostile(rows), data: { rows } }
  },
}

/**
 * Measures the cost of each kind of module for unrelated routes: while it is uploaded and gets a route, while it
 * appears in a watched folder, and while it is called. Each kind has its own server.
 *
 * @param windowMs - How long to look at least; how long to call.
 */
async function measureHostile(windowMs: number, progress: (line: string) => void): Promise<HostileRow[]> {
  const rows: HostileRow[] = []
  for (const kind of KINDS) {
    const bytes = kind.bytes()
    const plain = harmless(bytes.length)
    let victim: Victim | undefined
    let isServed = false
    for (const way of WAYS) {
      const isWanted = (kind.ways ?? WAYS).includes(way)
      if (!isWanted && !(way === 'uploaded' && kind.ways?.includes('called'))) continue
      if (way === 'called' && !isServed) continue
      victim ??= await startVictim()
      const beside = await measure(victim, way, 'harmless', plain, windowMs)
      const found = await measure(victim, way, 'hostile', bytes, windowMs, kind)
      if (way === 'uploaded') isServed = found.outcome === 'ok'
      if (isWanted) rows.push({ kind: kind.name, bytes: bytes.length, way, hostile: found, harmless: beside })
      progress(`${kind.name}, ${way}: ${found.outcome}, p99 ${ms(found.p99Ms)} ms (${ms(beside.p99Ms)})`)
      if (!found.isOver) continue
      victim.stop()
      victim = undefined
      if (way === 'uploaded') isServed = false
      else if (isServed && way === 'watched') {
        victim = await startVictim()
        for (const [name, module] of [
          ['harmless', plain],
          ['hostile', bytes],
        ] as const)
          await upload(victim, name, module, name === 'hostile' ? kind : undefined)
      }
    }
    victim?.stop()
  }
  return rows
}

function measure(
  victim: Victim,
  way: Way,
  name: 'harmless' | 'hostile',
  bytes: Uint8Array,
  windowMs: number,
  kind?: Kind,
): Promise<Measured> {
  const act = {
    uploaded: () => upload(victim, name, bytes, kind),
    watched: () => victim.watched(name === 'hostile' ? 'watched' : 'plain', bytes),
    called: () => call(`${victim.url}/${name}`, windowMs),
  }
  return victim.during(act[way], windowMs)
}

/** Calls at a constant rate. @returns the most frequent outcome. */
async function call(url: string, windowMs: number): Promise<string> {
  const outcomes = new Map<string, number>()
  const one = async () => {
    const answer = await fetch(url, { method: 'POST', body: 'hostile' })
    const outcome = answer.ok ? 'ok' : (codeOf(await answer.text()) ?? String(answer.status))
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  const calls: Promise<void>[] = []
  let failure: unknown
  const fail = (error: unknown) => {
    failure ??= error
  }
  for (let begun = 0; begun < windowMs; begun += 1_000 / CALLS_PER_SECOND) {
    calls.push(one().catch(fail))
    await sleep(1_000 / CALLS_PER_SECOND)
  }
  await Promise.all(calls)
  if (failure) throw failure
  const [most = ['nothing']] = [...outcomes].sort(([, a], [, b]) => b - a)
  return most[0]
}

export function renderHostile(rows: readonly HostileRow[]): string {
  const head = [
    '| module | bytes | action | outcome | after ms | p99 ms of others | with a harmless module | ratio | longest ms | event loop held, ms | with a harmless module | longest turn, ms |',
    '| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
  ]
  const lines = rows.map(({ kind, bytes, way, hostile, harmless }) => {
    const figures = [
      ms(hostile.tookMs),
      ms(hostile.p99Ms),
      ms(harmless.p99Ms),
      renderNumber(hostile.p99Ms / harmless.p99Ms, 1),
      ms(hostile.maxMs),
      ms(hostile.heldMs),
      ms(harmless.heldMs),
      ms(hostile.turnMs),
    ]
    return `| ${[kind, renderNumber(bytes, 0), way, hostile.outcome, ...figures].join(' | ')} |`
  })
  return [
    ...head,
    ...lines,
    '',
    ...renderVerdicts(rows),
    '',
    ...KINDS.map(({ name, what }) => `- ${name}: ${what}.`),
  ].join('\n')
}

function renderVerdicts(rows: readonly HostileRow[]): string[] {
  const changes = rows.filter(({ way }) => way !== 'called')
  const long = changes.filter(({ hostile }) => hostile.heldMs > MAX_HELD_MS)
  const worst = [...changes].sort((a, b) => b.hostile.heldMs - a.hostile.heldMs)[0]
  const slow = changes.filter(({ hostile }) => hostile.turnMs > MAX_HELD_MS)
  const ended = rows.filter(({ hostile }) => hostile.isOver)
  return [
    `- Changes that held the event loop for more than ${MAX_HELD_MS} ms: ${long.length} of ${changes.length}${
      worst ? `, at most ${ms(worst.hostile.heldMs)} ms (${worst.kind}, ${worst.way})` : ''
    }.`,
    `- With the time in which its thread waited for a core, the longest turn took more than ${MAX_HELD_MS} ms in ${slow.length} of them.`,
    `- Servers that ended, or were ended after ${LIMIT_MS / 1_000} s without an answer: ${ended.length} of ${rows.length}${
      ended.length > 0 ? `: ${ended.map(({ kind, way }) => `${kind}, ${way}`).join('; ')}` : ''
    }.`,
  ]
}

function ms(value: number): string {
  return renderNumber(value, value < 100 ? 1 : 0)
}
