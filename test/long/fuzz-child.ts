import { openSync, writeSync } from 'node:fs'
import { keepInput, readCorpus } from '../fuzz/corpus.ts'
import { findTargets } from '../fuzz/find-targets.ts'
import { Fuzzer } from '../fuzz/fuzzer.ts'
import { randomOf } from '../support/random.ts'

/** What `fuzz.ts` asks of its child, as JSON in the first argument. */
export interface FuzzTask {
  readonly target: string
  readonly seed: number
  /** When to stop. */
  readonly cpuSeconds: number
  /** Where to write each input before it is tried: its length in four bytes, and then its bytes. */
  readonly inputPath: string
}

/** What the child says about each second. */
export interface FuzzReport {
  readonly tried: number
  readonly results: number
  /** Inputs that joined the corpus. */
  readonly kept: number
  readonly cpuSeconds: number
}

const REPORT_MS = 1_000

const task: FuzzTask = JSON.parse(process.argv[2] ?? '')
const target = (await findTargets()).find(({ name }) => name === task.target)
if (!target) throw new Error(`there is no target ${task.target}`)

const fuzzer = new Fuzzer(target, randomOf(task.seed))
const file = openSync(task.inputPath, 'w')
let kept = 0
let reported = 0

for (const input of [...target.seeds(), ...readCorpus(target.name).values()]) await tryInput(input, true)
while (cpuSeconds() < task.cpuSeconds) {
  const input = fuzzer.next()
  if ((await tryInput(input)) && keepInput(target.name, input)) kept++
}
report()
process.disconnect?.()

async function tryInput(input: Uint8Array, isToBeginWith = false): Promise<boolean> {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(input.length)
  writeSync(file, Buffer.concat([length, input]), 0, null, 0)
  if (performance.now() - reported > REPORT_MS) report()
  return fuzzer.try(input, isToBeginWith)
}

function report(): void {
  reported = performance.now()
  const { tried, results } = fuzzer
  process.send?.({ tried, results: results.size, kept, cpuSeconds: cpuSeconds() } satisfies FuzzReport)
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
