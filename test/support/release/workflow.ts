import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

/*
 * Runs a workflow of the forge on this machine: its jobs in the order of `needs`, each in its own checkout of a tag, and the text of
 * each `run`. What only the forge has is replaced: actions, and steps that a stand-in names.
 */

interface Step {
  readonly name?: string
  readonly uses?: string
  readonly with?: Readonly<Record<string, string | number | boolean>>
  readonly run?: string
  readonly env?: Readonly<Record<string, string | number | boolean>>
}

interface Job {
  readonly needs?: string | readonly string[]
  readonly uses?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly steps?: readonly Step[]
}

/** How a job ended. One is skipped if a job that it needs has not passed. */
export type Ended = 'passed' | 'failed' | 'skipped'

/** The machine and the forge. */
export interface Runner {
  /** The repository, from which the tag is checked out. */
  readonly origin: string
  /** Where checkouts and the log go. */
  readonly folder: string
  /** The variables of all steps. */
  readonly env: NodeJS.ProcessEnv
  /** Variables of jobs that may ask for an identity. */
  readonly identity: NodeJS.ProcessEnv
  /** What an action does to the variables of the job's steps. An action that has no entry fails. */
  readonly actions: Readonly<Record<string, (step: Step, env: NodeJS.ProcessEnv) => NodeJS.ProcessEnv>>
  /** Shell commands in place of those of a step, by its name. */
  readonly standIns: Readonly<Record<string, string>>
  /** Variables that replace those of any step. */
  readonly replaced: NodeJS.ProcessEnv
  /** Jobs that count as passed. A job that is another workflow does too. */
  readonly passed: readonly string[]
}

/** @returns how each job ended. */
export async function runWorkflow(
  file: string,
  tag: string,
  runner: Runner,
): Promise<Readonly<Record<string, Ended>>> {
  const { jobs } = parse(gitShow(runner.origin, tag, file)) as { jobs: Readonly<Record<string, Job>> }
  const ended: Record<string, Ended> = {}
  while (Object.keys(ended).length < Object.keys(jobs).length) {
    const next = Object.entries(jobs).find(
      ([name, { needs }]) => !(name in ended) && [needs ?? []].flat().every((needed) => needed in ended),
    )
    if (next === undefined) throw new Error(`${file}: jobs need each other`)
    const [name, job] = next
    const canRun = [job.needs ?? []].flat().every((needed) => ended[needed] === 'passed')
    const isGiven = runner.passed.includes(name) || job.uses !== undefined
    if (!canRun) ended[name] = 'skipped'
    else ended[name] = isGiven ? 'passed' : await runJob(name, job, tag, runner)
  }
  return ended
}

function gitShow(origin: string, tag: string, file: string): string {
  return spawnSync('git', ['-C', origin, 'show', `${tag}:${file}`], { encoding: 'utf8' }).stdout
}

async function runJob(name: string, job: Job, tag: string, runner: Runner): Promise<Ended> {
  const folder = mkdtempSync(join(runner.folder, `${name}-`))
  const own = job.permissions?.['id-token'] === 'write' ? runner.identity : {}
  let env: NodeJS.ProcessEnv = { ...runner.env, ...own, GITHUB_STEP_SUMMARY: join(folder, 'summary.md') }
  for (const step of job.steps ?? []) {
    const { uses, run } = step
    if (uses?.startsWith('actions/checkout@')) {
      if (!(await shell(`git clone -q --branch ${tag} ${runner.origin} work`, folder, env, runner)))
        return 'failed'
    } else if (uses !== undefined) {
      const action = runner.actions[uses.replace(/@.*/, '')]
      if (action === undefined) throw new Error(`no stand-in for the action ${uses}`)
      env = action(step, env)
    } else if (run !== undefined) {
      const variables = Object.entries(step.env ?? {}).map(([key, value]) => [key, String(value)])
      const all = { ...env, ...Object.fromEntries(variables), ...runner.replaced }
      const command = runner.standIns[step.name ?? run] ?? run
      if (!(await shell(command, join(folder, 'work'), all, runner))) return 'failed'
    }
  }
  return 'passed'
}

/** As the forge runs it: by `bash -e`. This process goes on meanwhile, because it has servers that the command asks. */
async function shell(command: string, cwd: string, env: NodeJS.ProcessEnv, runner: Runner): Promise<boolean> {
  const log = join(runner.folder, 'log')
  appendFileSync(log, `\n== ${command}\n`)
  const child = spawn('bash', ['-e', '-c', command], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  for (const output of [child.stdout, child.stderr]) output.on('data', (data) => appendFileSync(log, data))
  const [code] = await once(child, 'close')
  return code === 0
}

/** Writes programs of the shell into a new folder. @returns the folder. */
export function writePrograms(folder: string, programs: Readonly<Record<string, string>>): string {
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/usr/bin/env bash\n${text}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  return folder
}

/** The log of all steps so far. */
export function logOf({ folder }: Pick<Runner, 'folder'>): string {
  return readFileSync(join(folder, 'log'), 'utf8')
}
