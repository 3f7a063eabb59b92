import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CONFIG = fileURLToPath(new URL('../../deploy/nginx/wasm-serve.conf', import.meta.url))

/**
 * Addresses of the documented configuration, and their replacements in the folder of the test. The rest is unchanged.
 */
const PLACES = [
  ['listen 80;', 'nginx.sock', (path: string) => `listen unix:${path};`],
  ['unix:/run/wasm-serve-blue/http.sock', 'blue.sock', (path: string) => `unix:${path}`],
  ['unix:/run/wasm-serve-green/http.sock', 'green.sock', (path: string) => `unix:${path}`],
] as const

/** An nginx with the configuration of `deploy/nginx`. */
export interface Nginx {
  /** Its address. */
  readonly socketPath: string
  /** Its log. */
  log(): string
  stop(): Promise<void>
}

/** Starts nginx (Debian: nginx-light). What it serves is expected at `blue.sock` and `green.sock` of the folder. */
export async function startNginx(folder: string): Promise<Nginx> {
  let ours = readFileSync(CONFIG, 'utf8')
  for (const [from, name, render] of PLACES) {
    if (ours.split(from).length !== 2) throw new Error(`${CONFIG} does not have "${from}" once`)
    ours = ours.replace(from, render(join(folder, name)))
  }
  writeFileSync(join(folder, 'wasm-serve.conf'), ours)
  writeFileSync(join(folder, 'nginx.conf'), around(folder))
  const child = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')], {
    stdio: 'inherit',
  })
  const socketPath = join(folder, 'nginx.sock')
  await listening(child, socketPath)
  return {
    socketPath,
    log: () => readFileSync(join(folder, 'error.log'), 'utf8'),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
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
    http { access_log off; ${temporary.join(' ')} include ${join(folder, 'wasm-serve.conf')}; }`
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
