import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { autocannon } from './load/autocannon.ts'
import { renderNumber } from './origin.ts'
import { runUnderLoad } from './run.ts'
import { ours } from './scenario.ts'
import { startServer } from './server-process.ts'

/** Self time of one function. */
export interface ProfileLine {
  readonly where: string
  /** The share of the time that the main thread was busy. */
  readonly percent: number
}

const CONNECTIONS = 100

/** Profiles our command with its default settings under load, without its first two seconds. */
export async function measureProfile(seconds: number): Promise<ProfileLine[]> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-profile-'))
  try {
    const scenario = ours('kernel')
    const [program, ...args] = scenario.command
    const profiling = ['--cpu-prof', `--cpu-prof-dir=${folder}`]
    const server = await startServer({ ...scenario, command: [program, ...profiling, ...args] })
    await runUnderLoad(scenario, server, { tool: autocannon, connections: CONNECTIONS, seconds })
    await server.end()
    const [file = ''] = readdirSync(folder)
    return selfTimes(JSON.parse(readFileSync(join(folder, file), 'utf8')))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** V8's format of a profile: one node for each call path; samples name the node that was running. */
export interface Profile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: CallFrame
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  /** In microseconds, as all times here. */
  readonly timeDeltas: readonly number[]
  readonly startTime: number
}

export interface CallFrame {
  readonly functionName: string
  readonly url: string
}

const SKIPPED_MICROS = 2_000_000

function selfTimes({ nodes, samples, timeDeltas }: Profile): ProfileLine[] {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, describe(callFrame)]))
  const times = new Map<string, number>()
  let elapsed = 0
  for (const [i, id] of samples.entries()) {
    const delta = timeDeltas[i] ?? 0
    elapsed += delta
    const name = names.get(id) ?? ''
    if (elapsed > SKIPPED_MICROS && name !== '(idle)') times.set(name, (times.get(name) ?? 0) + delta)
  }
  const total = [...times.values()].reduce((sum, time) => sum + time, 0)
  return [...times]
    .map(([where, time]) => ({ where, percent: (time / total) * 100 }))
    .sort((a, b) => b.percent - a.percent)
}

function describe({ functionName, url }: CallFrame): string {
  const file = url.replace(/^.*\/(?:node_modules|main)\//, '').replace(/^.*\/(dist\/)/, '$1')
  return file ? `${functionName || '(anonymous)'}, ${file}` : functionName
}

const SHOWN_LINES = 25

export function renderProfile(lines: readonly ProfileLine[]): string {
  const rows = lines.slice(0, SHOWN_LINES).map(({ where, percent }) => {
    const code = `\`\` ${where.replaceAll('|', '\\|')} \`\`` // a regular expression may hold a backtick
    return `| ${renderNumber(percent, 1)} | ${code} |`
  })
  const own = lines
    .filter(({ where }) => /, dist\/(?!packed-packages)|wasm/.test(where))
    .reduce((sum, { percent }) => sum + percent, 0)
  return [
    '| self % | function |',
    '| ---: | --- |',
    ...rows,
    '',
    `All of our own functions, kernel and guest: ${renderNumber(own, 1)} %.`,
  ].join('\n')
}
