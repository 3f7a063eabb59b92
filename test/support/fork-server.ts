import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { ChangeRecord } from '../../src/deploy/deployments.ts'
import type { ServerOptions } from '../../src/options/options.ts'

/*
 * For tests and for the bench: this file imports nothing of Vitest.
 */

/** A server in its own process. */
export interface ServerProcess {
  readonly url: string
  readonly child: ChildProcess
  /** Resolves when it has ended. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Puts another app in the place of the present one. @returns the code of the failure, if there is one. */
  replace(options: ServerOptions): Promise<string | undefined>
  /** Serves other routes, as a reload does. */
  change(options: Pick<ServerOptions, 'routes'>): Promise<ChangeRecord>
  /** Its resources when it is idle. */
  measure(): Promise<ProcessResources>
}

/** The resources of a process. */
export interface ProcessResources {
  readonly memory: NodeJS.MemoryUsage
  /** Resources that keep its event loop alive, by kind. */
  readonly handles: Readonly<Record<string, number>>
  /** Calls that run or wait, by the metrics. Calls of an app that `replace` has put in place are not counted. */
  readonly calls: number
  /** Warnings of Node. */
  readonly warnings: readonly string[]
}

/** The last bytes of what a process that ended wrote to its standard error. */
const TOLD = 2_000

const SCRIPT = new URL('serve-process.mjs', import.meta.url)

/** Starts a server, of the code in `lib/`. The caller kills the child. */
export function forkServer(options: ServerOptions): {
  readonly child: ChildProcess
  readonly started: Promise<ServerProcess>
} {
  const child = fork(SCRIPT, [JSON.stringify({ stallMs: 0, port: 0, ...options })], {
    execArgv: ['--expose-gc'],
    stdio: ['inherit', 'inherit', 'pipe', 'ipc'],
  })
  return { child, started: connectTo(child) }
}

async function connectTo(child: ChildProcess): Promise<ServerProcess> {
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
  const told = child.stderr === null ? '' : text(child.stderr)
  const over = ended.then(async ({ code, signal }) => {
    throw new Error(`it ended with ${signal ?? code}: ${(await told).slice(-TOLD)}`)
  })
  over.catch(() => undefined) // each question rejects with it
  const [{ url }] = await Promise.race([once(child, 'message'), over])

  const answers = new Map<number, (answer: unknown) => void>()
  let lastId = 0
  child.on('message', (answer: { id: number }) => answers.get(answer.id)?.(answer))
  const ask = <Answer>(question: object): Promise<Answer> => {
    const id = ++lastId
    const answer = new Promise<Answer>((resolve) => answers.set(id, (given) => resolve(given as Answer)))
    child.send({ id, ...question })
    return Promise.race([answer, over])
  }
  return {
    url,
    child,
    ended,
    replace: async (next) => (await ask<{ code?: string }>({ replace: { stallMs: 0, ...next } })).code,
    change: (change) => ask<ChangeRecord>({ change }),
    measure: () => ask<ProcessResources>({}),
  }
}
