import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CONFIG = fileURLToPath(new URL('../../deploy/nginx/wasm-serve.conf', import.meta.url))

/** The part of the configuration that a distribution includes. */
const CONFIG_FILE = 'wasm-serve.conf'

/** Addresses of the documented configuration that are replaced. The rest is unchanged. */
const PLACES = [
  'listen 80;',
  'unix:/run/wasm-serve-blue/http.sock',
  'unix:/run/wasm-serve-green/http.sock',
] as const

/** The addresses of the two servers behind nginx. */
export type Upstreams = readonly [blue: string, green: string]

/** A running nginx. */
export interface RunningNginx {
  /** Its address. */
  readonly socketPath: string
  /** Its log. */
  log(): string
  /** Reads its configuration again. Connections that are open are closed after their requests. */
  reload(): void
  stop(): Promise<void>
}

/** An nginx with the configuration of `deploy/nginx`. */
export interface Nginx extends RunningNginx {
  /** Sends new requests to others. */
  follow(upstreams: Upstreams): void
}

/**
 * Starts nginx (Debian: nginx-light).
 *
 * @param upstreams - What it serves. Default: the sockets `blue.sock` and `green.sock` of the folder.
 */
export async function startNginx(
  folder: string,
  upstreams: Upstreams = [`unix:${join(folder, 'blue.sock')}`, `unix:${join(folder, 'green.sock')}`],
): Promise<Nginx> {
  writeConfig(folder, upstreams)
  const nginx = await run(folder)
  return {
    ...nginx,
    follow(upstreams) {
      writeConfig(folder, upstreams)
      nginx.reload()
    },
  }
}

/** Starts nginx with one server, which has these directives. */
export async function startNginxWith(folder: string, directives: string): Promise<RunningNginx> {
  writeFileSync(join(folder, CONFIG_FILE), `server { listen unix:${socketIn(folder)}; ${directives} }`)
  return run(folder)
}

async function run(folder: string): Promise<RunningNginx> {
  writeFileSync(join(folder, 'nginx.conf'), around(folder))
  const child = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')], {
    stdio: 'inherit',
  })
  const socketPath = socketIn(folder)
  await listening(child, socketPath)
  return {
    socketPath,
    log: () => readFileSync(join(folder, 'error.log'), 'utf8'),
    reload: () => void child.kill('SIGHUP'),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
}

function socketIn(folder: string): string {
  return join(folder, 'nginx.sock')
}

function writeConfig(folder: string, upstreams: Upstreams): void {
  const replacements = [`listen unix:${socketIn(folder)};`, ...upstreams]
  let ours = readFileSync(CONFIG, 'utf8')
  for (const [index, from] of PLACES.entries()) {
    if (ours.split(from).length !== 2) throw new Error(`${CONFIG} does not have "${from}" once`)
    ours = ours.replace(from, replacements[index] ?? '')
  }
  writeFileSync(join(folder, CONFIG_FILE), ours)
}

/** The surrounding configuration of a distribution. */
function around(folder: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  )
  return `
    daemon off;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    pid ${join(folder, 'nginx.pid')};
    error_log ${join(folder, 'error.log')} info;
    events { worker_connections 1024; }
    http { access_log off; ${temporary.join(' ')} include ${join(folder, CONFIG_FILE)}; }`
}

async function listening(child: ChildProcess, path: string): Promise<void> {
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (error) => reject(new Error(`nginx is needed for this test: ${error.message}`)))
    child.once('exit', (code) => reject(new Error(`nginx ended with ${code}`)))
  })
  failed.catch(() => undefined) // later it ends as it should
  for (;;) {
    const socket = connect(path)
    const isThere = await Promise.race([
      new Promise<boolean>((resolve) => {
        socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      }),
      failed,
    ])
    socket.destroy()
    if (isThere) return
    await new Promise((resolve) => setTimeout(resolve, 20)) // nginx does not say when it listens
  }
}
