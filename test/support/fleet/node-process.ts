import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../redis.ts'

/*
 * Nodes of a fleet as processes, for tests and the bench. Whoever starts one ends it.
 */

export interface NodeOptions {
  /** Words and flags besides those of the fleet, the ports and the token. */
  readonly args: readonly string[]
  /** The URL of the store. */
  readonly store: string
  /** Its name. */
  readonly node: string
  readonly port: number
  readonly adminPort: number
  /** The state folder. */
  readonly state?: string | undefined
  readonly env?: NodeJS.ProcessEnv
  readonly cwd?: string | undefined
}

export interface NodeProcess {
  readonly name: string
  readonly child: ChildProcess
  readonly url: string
  readonly adminUrl: string
  /** All that it has printed. */
  printed(): string
  /** Resolves when it listens. @throws if it ends before. */
  readonly listening: Promise<void>
  readonly ended: Promise<NodeEnding>
  /** Sends a signal, and waits until the process has ended. */
  end(signal: NodeJS.Signals): Promise<NodeEnding>
  /** Asks the admin API. Bytes are sent as they are, anything else as JSON. @throws if there is no answer. */
  ask(method: string, path: string, options?: AskOptions): Promise<AdminAnswer>
}

interface NodeEnding {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly printed: string
}

interface AskOptions {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Default: 30 s. */
  readonly timeoutMs?: number
}

interface AdminAnswer {
  readonly status: number
  readonly tag: string
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields that they know
  readonly body: any
}

const TOKEN = 'the-token-of-all-nodes-of-the-fleet'

const CLI = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url))

const ASK_MS = 30_000

/** Starts a node. It does not outlive this process. */
export function startNode(options: NodeOptions): NodeProcess {
  const { args, store, node, port, adminPort, state, env = {}, cwd } = options
  const places = ['--port', String(port), '--admin', `127.0.0.1:${adminPort}`]
  const kept = state === undefined ? [] : ['--state', state]
  const { npm_config_user_agent: _, ...inherited } = process.env
  const child = spawn(
    process.execPath,
    [CLI, ...args, '--fleet', store, '--fleet-node', node, ...places, ...kept, '--drain-ms', '0'],
    {
      env: { ...inherited, WASM_SERVE_ADMIN_TOKEN: TOKEN, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd,
    },
  )
  process.setMaxListeners(0) // one for each node
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  let printed = ''
  const listening = new Promise<void>((resolve, reject) => {
    const read = (text: string) => {
      printed += text
      if (printed.includes(' listens on ')) resolve()
    }
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', read)
    child.once('error', reject)
    child.once('close', (code, signal) =>
      reject(new Error(`${node} ended with ${signal ?? code}: ${printed}`)),
    )
  })
  listening.catch(() => undefined) // for those who wait for its end only
  const ended = once(child, 'close').then(([code, signal]): NodeEnding => {
    process.off('exit', kill)
    return { code, signal, printed }
  })
  const adminUrl = `http://127.0.0.1:${adminPort}`
  return {
    ...{ name: node, child, url: `http://127.0.0.1:${port}`, adminUrl, listening, ended },
    printed: () => printed,
    async end(signal) {
      child.kill(signal)
      return ended
    },
    ask: (method, path, options) => askAdmin(adminUrl + path, method, options),
  }
}

async function askAdmin(
  url: string,
  method: string,
  { body, headers = {}, timeoutMs = ASK_MS }: AskOptions = {},
): Promise<AdminAnswer> {
  const isBytes = body instanceof Uint8Array
  const answer = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${TOKEN}`,
      ...(body !== undefined && { 'content-type': isBytes ? 'application/wasm' : 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: isBytes ? Buffer.from(body) : JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  })
  const text = await answer.text()
  return {
    status: answer.status,
    tag: answer.headers.get('etag') ?? '',
    body: text === '' ? undefined : JSON.parse(text),
  }
}

export interface FleetOptions {
  readonly count: number
  /** The URL of the store. */
  readonly store: string
  /** Words and flags of all. */
  readonly args: readonly string[]
  /** Has a state folder for each. */
  readonly folder: string
}

/** Starts nodes on free ports; the first one makes the first revision. @throws if one does not start. */
export async function startNodes({ count, store, args, folder }: FleetOptions): Promise<NodeProcess[]> {
  const nodes: NodeProcess[] = []
  try {
    for (let index = 0; index < count; index++) {
      const node = `n${index}`
      const ports = { port: await freePort(), adminPort: await freePort() }
      const started = startNode({ ...ports, store, node, args, state: join(folder, node) })
      nodes.push(started)
      if (index === 0) await started.listening
    }
    await Promise.all(nodes.map(({ listening }) => listening))
    return nodes
  } catch (error) {
    await endNodes(nodes)
    throw error
  }
}

export async function endNodes(nodes: readonly NodeProcess[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.end('SIGKILL')))
}
