import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { assembleGuest } from '../../bench/guest.ts'
import { forkServer, type ProcessResources, type ServerProcess } from '../support/fork-server.ts'
import { randomOf } from '../support/random.ts'
import { stormRoutes } from '../support/stream-exchanges.ts'
import { fillThreads, openParts, storm } from '../support/stream-storm.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/streams.ts [--seed N] [--streams N]
 *
 * Streams of all kinds, with all faults, while routes are changed: the long form of test/system/streams-storm.test.ts.
 * Writes the results to docs/contribute/long-tests.md, and exits with 1 if bytes were crossed, a stream hung, or something is
 * left. Needs the built files.
 */

const STREAMS = 3_000

/** Streams before the resources are compared: threads, caches and buffers of the process come to be meanwhile. */
const WARM_UP = 300

/** Clients at a time. */
const CLIENTS = 40

const MIB = 2 ** 20

/** Growth that a garbage collection may leave. */
const MAX_GROWTH = 8 * MIB

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
    streams: { type: 'string', default: String(STREAMS) },
  },
})
const [seed, streams] = [Number(values.seed), Number(values.streams)]
console.log(`seed ${seed}, ${streams} streams`)

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-storm-'))
const plugin = join(folder, 'storm.wasm')
writeFileSync(plugin, await assembleGuest('storm', '../test/guests'))
const { child, started } = forkServer({ routes: stormRoutes(plugin) })
try {
  const section = await run(await started)
  console.log(section)
  keepSection('streams', section)
} finally {
  child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
}

async function run(server: ServerProcess): Promise<string> {
  const random = randomOf(seed)
  let version = 0
  const rage = async (count: number) => {
    const begun = performance.now()
    const report = await storm(server, random, count, CLIENTS, async () => {
      const { ok, error } = await server.change({ routes: stormRoutes(plugin, ++version) })
      if (!ok) throw new Error(`a change failed: ${error?.message}`)
    })
    await fillThreads(server)
    return { ...report, seconds: (performance.now() - begun) / 1_000 }
  }
  await rage(WARM_UP)
  const before = await partsOf(server)
  const { ends, problems, seconds } = await rage(streams)
  const after = await partsOf(server)
  const checks: readonly Check[] = [
    { what: 'wrong bytes, wrong ends, and streams that hung', before: 0, after: problems.length, more: 0 },
    ...(['calls', 'files', 'threads', 'handles', 'warnings'] as const).map((name) => {
      return { what: name, before: before[name], after: after[name], more: 0 }
    }),
    ...(['arrayBuffers', 'external', 'heapUsed'] as const).map((name) => {
      return {
        what: `${name}, MiB`,
        before: before.memory[name],
        after: after.memory[name],
        more: MAX_GROWTH,
      }
    }),
  ]
  if (!checks.every(isKept)) process.exitCode = 1
  for (const problem of problems.slice(0, 20)) console.error(problem)
  return render({ ends, checks, seconds, version })
}

interface Check {
  readonly what: string
  readonly before: number
  readonly after: number
  /** Maximum growth. */
  readonly more: number
}

function isKept({ before, after, more }: Check): boolean {
  return after - before <= more
}

async function partsOf(server: ServerProcess) {
  const { handles, memory, warnings, calls }: ProcessResources = await server.measure()
  const count = Object.values(handles).reduce((sum, each) => sum + each, 0)
  return { ...openParts(server), calls, handles: count, warnings: warnings.length, memory }
}

function render(results: {
  readonly ends: ReadonlyMap<string, number>
  readonly checks: readonly Check[]
  readonly seconds: number
  readonly version: number
}): string {
  const { ends, checks, seconds, version } = results
  const counts = new Map<string, Map<string, number>>()
  for (const [label, count] of ends) {
    const [, kind = '', end = ''] = /^([^,]+), .*: (.*)$/.exec(label) ?? []
    const ofKind = counts.get(kind) ?? new Map<string, number>()
    ofKind.set(end, (ofKind.get(end) ?? 0) + count)
    counts.set(kind, ofKind)
  }
  const names = [...new Set([...counts.values()].flatMap((ofKind) => [...ofKind.keys()]))].sort()
  const shown = ({ what, before, after }: Check) => {
    const scale = what.endsWith('MiB') ? MIB : 1
    return [before, after].map((value) => String(Math.round(value / scale)))
  }
  return `## Streams

Clients send streams of all kinds, and some leave, are slow, or stop to send; some guests never return, or trap; a route is changed after each
tenth stream (\`npx tsx test/long/streams.ts\`). Each line of a body and of its answer has the id of its stream, and answers are compared as they
come. *whole*: the right bytes and a clean end. *left*: the client left. *broken*: the connection was broken off, after right bytes. *late*: 408.
*refused*: 503. Then the resources of the server are compared with those before.

${renderOrigin()}. Seed ${seed}, ${streams} streams, ${version} changes, ${Math.round(seconds)} seconds.

| kind | ${names.join(' | ')} |
| --- |${' --: |'.repeat(names.length)}
${[...counts].map(([kind, ofKind]) => `| ${[kind, ...names.map((name) => ofKind.get(name) ?? 0)].join(' | ')} |`).join('\n')}

| left over | before | after | |
| --- | --: | --: | --- |
${checks.map((check) => `| ${[check.what, ...shown(check), isKept(check) ? 'as expected' : '**more**'].join(' | ')} |`).join('\n')}`
}
