import { type Bench, effortOf, missingMultiMemory, USUAL } from './bench.ts'
import { fleet } from './fleet/fleet.ts'
import { scale } from './growth.ts'
import { guestMemory } from './guest-memory/guest-memory.ts'
import { longLife } from './guest-memory/long-life.ts'
import { hostile } from './hostile/hostile.ts'
import { many } from './many/many.ts'
import { payload } from './payload.ts'
import { peers } from './peers.ts'
import { processes } from './serving-processes.ts'
import { setBench } from './set-bench.ts'
import { article } from './sets/article.ts'
import { batching } from './sets/batching.ts'
import { http } from './sets/http.ts'
import { mcp } from './sets/mcp.ts'
import { operations } from './sets/operations.ts'
import { transports } from './sets/transports.ts'
import { startup } from './startup.ts'
import { streams } from './streams/streams.ts'
import { tails } from './tails.ts'

const calls: Bench = {
  name: 'calls',
  minutes: 1,
  async run({ runs, quick }, progress) {
    const { measureCalls, renderCalls } = await import('./calls.ts')
    const rounds = runs ?? (quick ? 5 : 21)
    const data = await measureCalls(rounds, progress)
    return { args: ` --runs ${rounds}`, markdown: renderCalls(data), data }
  },
}

const engines: Bench = {
  name: 'engines',
  minutes: 10,
  async run(settings, progress) {
    const { measureEngines, plotEngines, renderEngines } = await import('./engines.ts')
    const { effort, args } = effortOf(settings, USUAL)
    const data = await measureEngines(effort, progress)
    return { args, markdown: renderEngines(data), data, plots: plotEngines(data) }
  },
}

const fresh: Bench = {
  name: 'fresh',
  minutes: 1,
  async run({ runs, quick }, progress) {
    const { measureFresh, renderFresh } = await import('./fresh.ts')
    const rounds = runs ?? (quick ? 5 : 51)
    const data = await measureFresh(rounds, progress)
    return { args: ` --runs ${rounds}`, markdown: renderFresh(data), data }
  },
}

const interrupts: Bench = {
  name: 'interrupts',
  minutes: 1,
  async run({ runs, quick }, progress) {
    const { measureInterrupts, renderInterrupts } = await import('./interrupts.ts')
    const rounds = runs ?? (quick ? 5 : 51)
    const measured = await measureInterrupts(rounds, progress)
    return { args: ` --runs ${rounds}`, markdown: renderInterrupts(measured), data: { measured } }
  },
}

const merge: Bench = {
  name: 'merge',
  minutes: 1,
  missing: missingMultiMemory,
  async run({ runs, quick }, progress) {
    const { measureMerge, measureMerging, renderMerge } = await import('./merge.ts')
    const rounds = runs ?? (quick ? 5 : 21)
    const merging = measureMerging(rounds)
    const data = { measured: await measureMerge(rounds, progress), merging }
    return { args: ` --runs ${rounds}`, markdown: renderMerge(data), data }
  },
}

const metering: Bench = {
  name: 'metering',
  minutes: 1,
  async run({ runs, quick }) {
    const { measureMetering, renderMetering } = await import('./metering.ts')
    const rounds = runs ?? (quick ? 5 : 51)
    const data = await measureMetering(rounds)
    return { args: ` --runs ${rounds}`, markdown: renderMetering(data), data }
  },
}

const profile: Bench = {
  name: 'profile',
  minutes: 3,
  async run({ runs, seconds = 5, quick }, progress) {
    const { measureProfiles, renderProfiles } = await import('./profiles.ts')
    const rounds = runs ?? (quick ? 1 : 5)
    const data = await measureProfiles(rounds, seconds, progress)
    return { args: ` --runs ${rounds} --seconds ${seconds}`, markdown: renderProfiles(data), data }
  },
}

const soak: Bench = {
  name: 'soak',
  minutes: 1,
  async run({ calls, quick }, progress) {
    const { measureSoak, renderSoak } = await import('./soak.ts')
    const count = calls ?? (quick ? 100_000 : 1_000_000)
    const measured = await measureSoak(count, progress)
    return { args: ` --calls ${count}`, markdown: renderSoak(measured), data: { measured } }
  },
}

/** All benches, in the order of `all`. */
export const BENCHES: readonly Bench[] = [
  setBench(article, 'one instance', 6),
  setBench(http, 'kernel', 6),
  setBench(transports, 'wasm-serve, HTTPS', 5),
  setBench(operations, 'off', 4),
  setBench(batching, 'together', 5),
  setBench(mcp, 'tool, inline', 6),
  metering,
  peers,
  tails,
  payload,
  engines,
  scale,
  many,
  processes,
  fleet,
  streams,
  startup,
  calls,
  fresh,
  interrupts,
  merge,
  profile,
  soak,
  guestMemory,
  longLife,
  hostile,
]
