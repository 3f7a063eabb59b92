import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { selfSigned } from '../certificate.ts'
import { CHAOS_FUNCTIONS, SAME_USER } from '../chaos.ts'
import { versionModule } from '../fleet/versions.ts'
import { guestBytes } from '../guest.ts'
import { kvGuest } from '../kv-guest.ts'
import { freePort } from '../redis.ts'
import type { Target } from './senders.ts'

/** A server with all kinds of routes and two serving processes, as the command. */
export interface ChaosServer {
  readonly child: ChildProcess
  readonly pid: number
  readonly target: Target
  /** Lines of the log: at most those of the messages that are looked for. */
  readonly lines: readonly LogLine[]
  /** How often each message of a warning or an error was logged. */
  readonly messages: ReadonlyMap<string, number>
  /** Folders whose files are counted. */
  readonly folders: Readonly<Record<string, string>>
  readonly ended: Promise<readonly [code: number | null, signal: NodeJS.Signals | null]>
  /** Asks the admin API. @throws if there is no answer. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<AdminAnswer>
  /** Replaces the configuration file in one step. @param change - Of the configuration at the start. */
  configure(change?: (config: Config) => Config): void
  /** Replaces the certificate. @returns its name. */
  renewCertificate(): string
}

export interface AdminAnswer {
  readonly status: number
  readonly code: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: fields of the admin API that a run knows
  readonly body: any
}

interface LogLine {
  readonly msg: string
  readonly pid?: number
  /** As `Date.now()`. */
  readonly at: number
}

interface Config {
  readonly routes: readonly object[]
  readonly [key: string]: unknown
}

export type Listener = 'http' | 'tls' | 'unix'

export interface ServerOptions {
  /** An empty folder of its own. */
  readonly folder: string
  readonly listener: Listener
  readonly storePort: number
  /** The port of the fleet's store, and the name of the node. */
  readonly fleet?: { readonly port: number; readonly node: string }
}

const CLI = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url))

const TOKEN = 'a-token-for-a-run-with-faults-0123456789'

/** Beyond all that the admin API waits for. */
const ASK_MS = 180_000

/** Messages whose lines are kept: with them processes end. */
const OF_LOSSES = new Set([
  'a serving process was lost',
  'a serving process was lost while it drained',
  'a serving process is silent for too long: killing it',
  'a serving process was replaced',
])

export async function startChaosServer(options: ServerOptions): Promise<ChaosServer> {
  const { folder, listener } = options
  const [port, adminPort] = [await freePort(), await freePort()]
  const folders = {
    state: join(folder, 'space', 'state'),
    temporary: join(folder, 'tmp'),
    cache: join(folder, 'cache'),
  }
  for (const path of Object.values(folders)) mkdirSync(path, { recursive: true, mode: 0o700 })
  const config = await configOf(options, port, adminPort)
  const path = join(folder, 'wasm-serve.json')
  const configure: ChaosServer['configure'] = (change = (same) => same) => {
    writeFileSync(`${path}.new`, JSON.stringify(change(config), undefined, 2))
    renameSync(`${path}.new`, path)
  }
  let certificates = 0
  const renewCertificate = () => {
    const name = `renewed-${++certificates}.example`
    const { key, cert } = selfSigned(name)
    writeFileSync(join(folder, 'key.pem'), key)
    writeFileSync(join(folder, 'cert.pem'), cert)
    return name
  }
  renewCertificate()
  configure()

  const child = spawn(process.execPath, [CLI], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      TMPDIR: folders.temporary,
      XDG_CACHE_HOME: folders.cache,
      WASM_SERVE_ADMIN_TOKEN: TOKEN,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: LogLine[] = []
  const messages = new Map<string, number>()
  const file = createWriteStream(join(folder, 'log'))
  let rest = ''
  let printed = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    file.write(text)
    printed = (printed + text).slice(-2_000)
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) read(line, lines, messages)
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('close', () => process.off('exit', kill))
  const ended = once(child, 'close').then(([code, signal]) => [code, signal] as const)
  await new Promise<void>((resolve, reject) => {
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-10_000)
      if (said.includes(' listens on ')) resolve()
    })
    void ended.then((end) => reject(new Error(`the server ended with ${end}: ${printed}`)))
  })
  const socketPath = listener === 'unix' ? join(folder, 'server.sock') : undefined
  return {
    child,
    pid: child.pid ?? 0,
    target: {
      host: '127.0.0.1',
      ...(socketPath === undefined ? { port } : { socketPath }),
      isTls: listener === 'tls',
    },
    lines,
    messages,
    folders,
    ended,
    ask: (method, place, body, headers) =>
      ask(`http://127.0.0.1:${adminPort}${place}`, method, body, headers),
    configure,
    renewCertificate,
  }
}

async function configOf(options: ServerOptions, port: number, adminPort: number): Promise<Config> {
  const { folder, listener, storePort, fleet } = options
  const plugin = (name: string, bytes: Uint8Array) => {
    writeFileSync(join(folder, `${name}.wasm`), bytes)
    return `${name}.wasm`
  }
  const zoo = { plugin: plugin('zoo', guestBytes('zoo')), functions: CHAOS_FUNCTIONS, memoryMax: 256 }
  const echo = { plugin: plugin('echo', guestBytes('echo')), function: 'echo' }
  const kv = { plugin: plugin('kv', kvGuest('get', 'set')), workers: 1, errorStatus: 503 }
  return {
    host: '127.0.0.1',
    ...(listener === 'unix' ? { socket: 'server.sock' } : { port }),
    ...(listener === 'tls' && { tls: { cert: 'cert.pem', key: 'key.pem' }, http2: true }),
    processes: 2,
    admin: `127.0.0.1:${adminPort}`,
    state: 'space/state',
    store: `redis://127.0.0.1:${storePort}`,
    mcp: {},
    stallMs: 5_000,
    storeTimeoutMs: 8_000,
    graceMs: 30_000,
    defaults: { startTimeoutMs: 120_000 },
    subprocessUser: SAME_USER,
    uploadLimit: 134_217_728,
    ...(fleet
      ? {
          fleet: {
            url: `redis://127.0.0.1:${fleet.port}`,
            node: fleet.node,
            pollMs: 500,
            allow: { functions: [CHAOS_FUNCTIONS] },
          },
        }
      : { watch: true }),
    routes: [
      { ...zoo, url: '/inline' },
      { ...zoo, url: '/threads', workers: 2, timeoutMs: 500 },
      { ...zoo, url: '/guests', engine: 'subprocess', workers: 2, timeoutMs: 500 },
      { ...echo, url: '/large' },
      { url: '/version', plugin: plugin('version', versionModule(0)), workers: 1 },
      { ...kv, url: '/get', function: 'get' },
      { ...kv, url: '/set', function: 'set' },
      { url: '/stream', plugin: plugin('stream', guestBytes('stream')), function: 'echo', workers: 4 },
      { ...echo, url: '/ws', contract: 'websocket', workers: 1 },
    ],
  }
}

function read(line: string, lines: LogLine[], messages: Map<string, number>): void {
  if (!line.startsWith('{') || !line.endsWith('}')) return
  let entry: { level: string; msg: string; pid?: number }
  try {
    entry = JSON.parse(line)
  } catch {
    return // two processes wrote at once
  }
  const { level, msg, pid } = entry
  if (OF_LOSSES.has(msg)) lines.push({ msg, at: Date.now(), ...(pid !== undefined && { pid }) })
  if (level === 'warn' || level === 'error' || level === 'fatal')
    messages.set(msg, (messages.get(msg) ?? 0) + 1)
}

async function ask(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string> = {},
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
    signal: AbortSignal.timeout(ASK_MS),
  })
  const text = await answer.text()
  const parsed = text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text
  return { status: answer.status, code: parsed.code?.replace('WASM_SERVE_', ''), body: parsed }
}
