import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { keepFailure } from '../fuzz/corpus.ts'
import { findTargets } from '../fuzz/find-targets.ts'
import type { FuzzReport, FuzzTask } from './fuzz-child.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npm run test:fuzz -- [--seed N] [--cpu-minutes N] [--target NAME]
 *
 * Gives each target of `test/fuzz/targets` mutants of its corpus, drawn by the seed, for an equal part of the CPU time.
 * An input whose result is new is added to the corpus; one that fails too, as `failed-...`, and the command exits with
 * 1. Writes the results to docs/contribute/long-tests.md, unless `--target` is given.
 */

const CPU_MINUTES = 10

/** A child that has tried no further input for so long hangs. */
const SILENCE_MS = 60_000

/** A child may load its modules for so long, which is much on a busy machine only. */
const LOAD_MS = 600_000

interface Result extends FuzzReport {
  readonly target: string
  /** Path of the input that failed. */
  readonly failed: string | undefined
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
    'cpu-minutes': { type: 'string', default: String(CPU_MINUTES) },
    target: { type: 'string' },
  },
})
const { target: only } = values
const seed = Number(values.seed)
const cpuMinutes = Number(values['cpu-minutes'])
const names = (await findTargets())
  .map(({ name }) => name)
  .filter((name) => only === undefined || name === only)
if (names.length === 0) throw new Error(`there is no target ${only}`)

console.log(`seed ${seed}, ${cpuMinutes} minutes of CPU for ${names.join(', ')}`)
const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-fuzz-'))
const results: Result[] = []
for (const name of names) results.push(await fuzz(name, (cpuMinutes / names.length) * 60))
rmSync(folder, { recursive: true })

const section = renderResults()
console.log(section)
if (only === undefined) keepSection('fuzz', section)
if (results.some(({ failed }) => failed !== undefined)) process.exitCode = 1

/** Fuzzes a target in a process of its own, which may hang or crash. */
async function fuzz(target: string, cpuSeconds: number): Promise<Result> {
  const inputPath = join(folder, target)
  const task: FuzzTask = { target, seed, cpuSeconds, inputPath }
  const child = fork(fileURLToPath(new URL('fuzz-child.ts', import.meta.url)), [JSON.stringify(task)])
  let report: FuzzReport = { tried: 0, results: 0, kept: 0, cpuSeconds: 0 }
  let silence = setTimeout(() => child.kill('SIGKILL'), LOAD_MS)
  child.on('message', (message) => {
    report = message as FuzzReport
    clearTimeout(silence)
    silence = setTimeout(() => child.kill('SIGKILL'), SILENCE_MS)
  })
  const [code, signal] = await once(child, 'exit')
  clearTimeout(silence)
  if (!existsSync(inputPath)) throw new Error(`${target} ended with ${signal ?? code} before its first input`)
  const failed = code === 0 ? undefined : keepFailure(target, readInput(inputPath))
  console.log(`${target}: ${report.tried} inputs, ${report.results} results, ${report.kept} kept`)
  if (failed !== undefined) console.log(`${target} failed (${signal ?? `exit code ${code}`}): ${failed}`)
  return { target, ...report, failed }
}

/** The input that was tried last: its length in four bytes, and then its bytes. */
function readInput(path: string): Uint8Array {
  const bytes = readFileSync(path)
  return bytes.subarray(4, 4 + bytes.readUInt32LE())
}

function renderResults(): string {
  return [
    '## Fuzzers',
    'Each target of `test/fuzz/targets` is given mutants of its corpus (`test/fuzz/corpus`), drawn by the seed. A result is ' +
      'what an input led to, such as an error code. An input with a new result joins the corpus, and the unit tests try ' +
      'it, and some mutants of the corpus, each time.',
    `${renderOrigin()}. Seed ${seed}, ${cpuMinutes} minutes of CPU.`,
    [
      '| target | CPU, in s | inputs | results | added to the corpus | failed |',
      '| --- | --: | --: | --: | --: | --- |',
      ...results.map(
        ({ target, cpuSeconds, tried, results, kept, failed }) =>
          `| \`${target}\` | ${cpuSeconds.toFixed(0)} | ${tried} | ${results} | ${kept} | ${failed === undefined ? 'no' : 'yes'} |`,
      ),
    ].join('\n'),
  ].join('\n\n')
}
