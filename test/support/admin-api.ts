import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { start } from './cli.ts'

export const TOKEN = 'a-token-of-32-characters-or-so-12'

/** A temporary folder; removed when the test ends. */
export function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-api-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** An answer of the admin API. */
interface ApiAnswer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields that they know
  readonly body: any
}

export interface Api {
  readonly url: string
  readonly adminUrl: string
  /** Sends bytes as they are, anything else as JSON. */
  api(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiAnswer>
  /** Asks a route. */
  post(path: string, body: string): Promise<readonly [status: number, body: string]>
}

/** The command with its admin listener, both on free ports; ended when the test ends. */
export async function startWithAdmin(
  args: readonly string[],
  cwd = temporaryFolder(),
  env: NodeJS.ProcessEnv = {},
) {
  return startApi(start, args, cwd, env)
}

/** The common interface of a command in this process and one in its own process. */
interface CommandProcess {
  stderr(): string
  listening(): Promise<string>
}

/** @param start - Starts it in this process, or in a new one. */
export async function startApi<S extends CommandProcess>(
  start: (args: readonly string[], env: NodeJS.ProcessEnv, surroundings: { cwd: string }) => S,
  args: readonly string[],
  cwd = temporaryFolder(),
  env: NodeJS.ProcessEnv = {},
): Promise<S & Api> {
  const flags = ['--port', '0', '--admin', '127.0.0.1:0', '--drain-ms', '0']
  const running = start([...args, ...flags], { WASM_SERVE_ADMIN_TOKEN: TOKEN, ...env }, { cwd })
  const url = await running.listening()
  const adminUrl = /admin listener is on (\S+)/.exec(running.stderr())?.[1] ?? ''
  return {
    ...running,
    url,
    adminUrl,
    async api(method, path, body, headers = {}) {
      const isBytes = body instanceof Uint8Array
      const type = isBytes ? 'application/wasm' : 'application/json'
      const answer = await fetch(adminUrl + path, {
        method,
        headers: {
          authorization: `Bearer ${TOKEN}`,
          ...(body !== undefined && { 'content-type': type }),
          ...headers,
        },
        ...(body !== undefined && { body: isBytes ? Buffer.from(body) : JSON.stringify(body) }),
      })
      return { status: answer.status, headers: answer.headers, body: await answer.json() }
    },
    async post(path, body) {
      const answer = await fetch(url + path, { method: 'POST', body })
      return [answer.status, await answer.text()] as const
    },
  }
}
