import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { assembleGuest } from '../guest.ts'
import { COMMAND } from '../scenario.ts'
import { longestTurns, PROBE_FLAGS, type Turns } from '../turns.ts'
import type { Innocents, ToClient } from './innocent-client.ts'
import type { Kind } from './kinds.ts'

/** A server that hostile modules come to, with a folder that it watches, and a client of routes that are not theirs. */
export interface Victim {
  readonly url: string
  /** Writes a module into the watched folder, and waits for its log line. @returns `ok` or a code. */
  watched(name: string, bytes: Uint8Array): Promise<string>
  /** Asks the admin API. */
  api(
    method: string,
    path: string,
    body: Uint8Array | object,
    headers?: Record<string, string>,
  ): Promise<Response>
  /** Measures the other routes while a task runs. */
  during(what: () => Promise<string>, leastMs: number): Promise<Measured>
  /** Settles when the process has ended. */
  readonly ended: Promise<string>
  stop(): void
}

export interface Measured extends Innocents {
  /** Its outcome: `ok`, a code, or how the server ended. */
  readonly outcome: string
  /** Its duration. */
  readonly tookMs: number
  /** The longest turn of the event loop. The whole duration, if the server ended before it could report. */
  readonly turnMs: number
  /** The same of the longest turn without the time in which its thread was ready to run and had no core. */
  readonly heldMs: number
  /** CPU time of the turn that used most, in ms; NaN if the server did not live to report it. */
  readonly turnCpuMs: number
  /** The server has ended, or was ended because it did not answer. */
  readonly isOver: boolean
}

/** A task that takes longer is ended with its server, and shown as such. */
export const LIMIT_MS = 30_000

const NO_END = `no end after ${LIMIT_MS / 1_000} s`

/** How long a server that is given up may take to answer earlier requests. */
const LAST_WORD_MS = 1_000

/** Requests a second, to the innocent routes in turns. */
const RATE = 200

const TOKEN = 'a-token-for-the-bench-0123456789'

const CLIENT = fileURLToPath(new URL('innocent-client.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Starts a server whose other routes, on the event loop and in a thread, get requests at a constant rate. The caller
 * stops it.
 */
export async function startVictim(): Promise<Victim> {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-hostile-'))
  writeFileSync(join(folder, 'echo.wasm'), await assembleGuest('echo', '../test/guests'))
  const flags = ['--port', '0', '--admin', '127.0.0.1:0', '--watch', '--upload-limit', '134217728']
  const server = spawn(process.execPath, [...PROBE_FLAGS, ...COMMAND, folder, ...flags], {
    cwd: ROOT,
    env: { ...environment(), WASM_SERVE_ADMIN_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const client = fork(CLIENT)
  const stop = () => {
    server.kill('SIGKILL')
    client.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', stop)
  const printed = { text: '' }
  for (const stream of [server.stdout, server.stderr]) {
    let room = MAX_LINE // a line about a hostile module may have megabytes
    stream?.setEncoding('utf8').on('data', (text: string) => {
      for (const [i, part] of text.split('\n').entries()) {
        if (i > 0) {
          printed.text += '\n'
          room = MAX_LINE
        }
        printed.text += part.slice(0, room)
        room -= Math.min(room, part.length)
      }
    })
  }
  const ended = once(server, 'close').then(([code, signal]) => `ended: ${signal ?? code}`)
  const shown = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const found = pattern.exec(printed.text)?.[1]
      if (found !== undefined) return found
      if (server.exitCode !== null || server.signalCode)
        throw new Error(`the server has ended: ${printed.text}`)
      await sleep(10)
    }
  }

  const admin = await shown(/admin listener is on (\S+)/)
  const url = (await shown(/(?:^|\n)\S.*listens on (\S+)\n/)).replace(/\/$/, '')
  const api: Victim['api'] = (method, path, body, headers = {}) => {
    const isBytes = body instanceof Uint8Array
    return fetch(`${admin}/api/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${TOKEN}`,
        'content-type': isBytes ? 'application/wasm' : 'application/json',
        ...headers,
      },
      body: isBytes ? Buffer.from(body) : JSON.stringify(body),
    })
  }
  const added = await api('POST', 'routes', {
    plugin: 'echo',
    url: '/threads',
    workers: 1,
    timeoutMs: 20_000,
  })
  if (!added.ok) throw new Error(`the innocent route was not added: ${await added.text()}`)
  tell(client, { start: [`${url}/echo`, `${url}/threads`], perSecond: RATE })
  await sleep(WARM_UP_MS)

  return {
    url,
    api,
    ended,
    stop() {
      process.off('exit', stop)
      stop()
    },
    async watched(name, bytes) {
      printed.text = ''
      writeFileSync(join(folder, `${name}.wasm`), bytes)
      const line = await shown(/^(.*"reason":"files".*)\n/m)
      return codeOf(line) ?? 'ok'
    },
    async during(what, leastMs) {
      await turnsOf(server, ended, LIMIT_MS)
      const begun = performance.now()
      tell(client, { begin: true })
      const limit = new AbortController()
      const late = sleep(LIMIT_MS, NO_END, { signal: limit.signal })
      const failed = (error: Error) => Promise.race([ended, sleep(1_000, `failed: ${error.message}`)])
      const outcome = await Promise.race([what().catch(failed), ended, late.catch(() => '')])
      const tookMs = performance.now() - begun
      limit.abort()
      await sleep(Math.max(TAIL_MS, leastMs - tookMs))
      const isLost = outcome === NO_END || outcome.startsWith('ended')
      const answered = once(client, 'message')
      tell(client, { end: true, limitMs: isLost ? LAST_WORD_MS : LIMIT_MS })
      const [innocents] = (await answered) as [Innocents]
      if (innocents.wrong > 0) throw new Error(`${innocents.wrong} innocent requests had answers of others`)
      const turns = await turnsOf(server, ended, isLost ? LAST_WORD_MS : LIMIT_MS)
      return {
        ...innocents,
        outcome,
        tookMs,
        turnMs: turns?.turnMs ?? performance.now() - begun,
        heldMs: turns?.heldMs ?? performance.now() - begun,
        turnCpuMs: turns?.cpuMs ?? Number.NaN,
        isOver: isLost || turns === undefined,
      }
    },
  }
}

/** Uploads a module, and gives it a route. @returns `ok`, or the code of the refusal. */
export async function upload(victim: Victim, name: string, bytes: Uint8Array, kind?: Kind): Promise<string> {
  const headers: Record<string, string> = kind?.encoding ? { 'content-encoding': kind.encoding } : {}
  const put = await victim.api('PUT', `plugins/${name}`, bytes, headers)
  if (!put.ok) return codeOf(await put.text()) ?? String(put.status)
  const route = {
    plugin: name,
    url: `/${name}`,
    function: 'run',
    workers: 1,
    timeoutMs: 1_000,
    ...kind?.route,
  }
  const added = await victim.api('POST', 'routes', route)
  const text = await added.text()
  return added.ok ? 'ok' : (codeOf(text) ?? String(added.status))
}

/** How long the other routes are still measured after the task: the event loop may still be busy with it. */
const TAIL_MS = 300

const WARM_UP_MS = 1_000

const MAX_LINE = 500

/** @returns the code of a failure in a text, without the common prefix; undefined if there is none. */
export function codeOf(text: string): string | undefined {
  return /"code":"(?:WASM_SERVE_)?(\w+)"/.exec(text)?.[1]
}

function tell(client: ChildProcess, message: ToClient): void {
  client.send(message)
}

/** @returns the longest turns of the event loop since the last report; undefined if the server does not answer. */
async function turnsOf(
  server: ChildProcess,
  ended: Promise<unknown>,
  limitMs: number,
): Promise<Turns | undefined> {
  if (!server.connected) return undefined
  const silent = sleep(limitMs, undefined, { ref: false })
  return Promise.race([longestTurns(server), ended.then(() => undefined), silent])
}

/** Ours, less what would change the command's defaults; npm's variable makes it watch for the end of npm. */
function environment(): NodeJS.ProcessEnv {
  const isOurs = ([key]: [string, unknown]) =>
    key !== 'npm_config_user_agent' && !key.startsWith('WASM_SERVE_')
  return Object.fromEntries(Object.entries(process.env).filter(isOurs))
}
