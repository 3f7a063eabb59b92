import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { post } from './client.ts'
import { renderNumber } from './origin.ts'
import type { CallFrame, Profile } from './profile.ts'
import {
  END_ON_SIGNAL,
  HELLO_BODY,
  isRight,
  noPlugin,
  ours,
  type Scenario,
  withNodeFlags,
} from './scenario.ts'
import { startServer } from './server-process.ts'
import { configured, numberedPlugins } from './startup.ts'
import { median } from './statistics.ts'

/** Where the time of a start goes, in ms until the first answer: the medians of some starts. */
export interface StartProfile {
  readonly scenario: string
  readonly parts: Readonly<Record<string, number>>
}

const BEFORE = 'Node.js, before it runs the program'
const PACKAGES = 'Fastify and other packages'
const OWN = 'the files of the server itself'
const GUESTS = 'guests'
const NODE = 'Node.js, for neither'
const loading = (owner: string) => `${owner}: found, read and compiled`

const PARTS = [
  BEFORE,
  loading(PACKAGES),
  PACKAGES,
  loading(OWN),
  OWN,
  GUESTS,
  NODE,
  '(garbage collector)',
  '(program)',
  '(idle)',
]

/** Profiles the main thread while a server starts and gives its first answer. */
export async function measureStartProfiles(
  runs: number,
  progress: (line: string) => void,
): Promise<StartProfile[]> {
  const scenarios = [
    { ...withNodeFlags(END_ON_SIGNAL, noPlugin(HELLO_BODY)), name: 'Fastify, echo' },
    ours('wasm-serve'),
    configured(numberedPlugins(10)),
  ]
  const all = scenarios.map(() => [] as Record<string, number>[])
  for (let run = 0; run < runs; run++) {
    for (const [i, scenario] of scenarios.entries()) all[i]?.push(await profileStart(scenario))
  }
  progress(`${runs} starts were profiled`)
  return scenarios.map(({ name }, i) => {
    const of = (part: string) => median((all[i] ?? []).map((parts) => parts[part] ?? 0))
    return { scenario: name, parts: Object.fromEntries(PARTS.map((part) => [part, of(part)])) }
  })
}

async function profileStart(scenario: Scenario): Promise<Record<string, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-profile-'))
  try {
    const begun = nowMicros()
    const profiling = ['--cpu-prof', `--cpu-prof-dir=${folder}`, '--cpu-prof-interval=200']
    const server = await startServer(withNodeFlags(profiling, scenario))
    const { status, body } = await post(server.url, scenario.body)
    const answered = nowMicros()
    if (status !== 200 || !isRight(scenario, scenario.body, body))
      throw new Error(`answered ${status} ${body}`)
    await server.end()
    const file = readdirSync(folder).find((name) => /\.0\.\d+\.cpuprofile$/.test(name)) ?? ''
    const profile: Profile = JSON.parse(readFileSync(join(folder, file), 'utf8'))
    return { ...partsOf(profile, answered), [BEFORE]: (profile.startTime - begun) / 1_000 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** V8 uses the same clock. */
function nowMicros(): number {
  return Number(process.hrtime.bigint() / 1_000n)
}

/** Times in ms until then. */
function partsOf({ nodes, samples, timeDeltas, startTime }: Profile, until: number): Record<string, number> {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])))
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const parts: Record<string, number> = {}
  let at = startTime
  for (const [i, id] of samples.entries()) {
    const delta = timeDeltas[i] ?? 0
    at += delta
    if (at > until) break
    const path: CallFrame[] = []
    for (let node: number | undefined = id; node !== undefined; node = parents.get(node)) {
      const frame = frames.get(node)
      if (frame) path.push(frame)
    }
    const part = partOf(path)
    parts[part] = (parts[part] ?? 0) + delta / 1_000
  }
  return parts
}

/** @param path - From the function that runs to the first that was called. */
function partOf(path: readonly CallFrame[]): string {
  const [{ functionName = '' } = {}] = path
  if (/^\((?:garbage collector|program|idle)\)$/.test(functionName)) return functionName
  const urls = path.map(({ url }) => url).filter((url) => url !== '')
  const owner = urls.map(ownerOf).find((owner) => owner !== undefined)
  if (!owner) return NODE
  return urls[0]?.startsWith('node:internal/modules/') ? loading(owner) : owner
}

function ownerOf(url: string): string | undefined {
  if (url.startsWith('node:')) return undefined
  if (url.startsWith('wasm:')) return GUESTS
  return /\/node_modules\/|\/packed-packages\.cjs$/.test(url) ? PACKAGES : OWN
}

export function renderStartProfiles(measured: readonly StartProfile[]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const ms = (value = 0) => renderNumber(value, 1)
  const sum = ({ parts }: StartProfile) => Object.values(parts).reduce((total, part) => total + part, 0)
  return [
    row(['ms', ...measured.map(({ scenario }) => scenario)]),
    row(['---', ...measured.map(() => '---:')]),
    ...PARTS.map((part) => row([part, ...measured.map(({ parts }) => ms(parts[part]))])),
    row(['sum', ...measured.map((each) => ms(sum(each)))]),
  ].join('\n')
}
