import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/*
 * Images are built with buildah, and run with podman and runc, as root. Their storage is a folder of the cache, apart from that of
 * the machine. Containers have the network of the machine, because CNI may be missing. podman runs in that folder: `podman exec`
 * may leave a file named `oom` in its working folder.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDER = join(
  process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
  'wasm-serve-test-tools',
  'containers',
)
const STORAGE = ['--root', join(FOLDER, 'storage'), '--runroot', join(FOLDER, 'run')]

/** Restrictions that the image is made for. */
const RESTRICTIONS = [
  ...['--read-only', '--read-only-tmpfs=false', '--cap-drop=ALL', '--security-opt=no-new-privileges'],
  ...['--memory=256m', '--memory-swap=256m'],
]

function must(program: string, words: readonly string[], cwd?: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1e9,
  })
  if (status === 0) return stdout.trim()
  throw error ?? new Error(`${program} ${words.join(' ')}\n${stdout}\n${stderr}`)
}

/** Runs buildah. @returns its output. */
export function buildah(...words: string[]): string {
  return must('buildah', [...STORAGE, ...words])
}

/** Runs podman. @returns its output. */
export function podman(...words: string[]): string {
  return must('podman', podmanWords(words), FOLDER)
}

/** Runs podman, and lets this process go on meanwhile. @param env - Further variables. @returns its output. */
export async function startPodman(words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { stdout } = await runFile('podman', podmanWords(words), {
    cwd: FOLDER,
    env: { ...process.env, ...env },
  })
  return stdout.trim()
}

const runFile = promisify(execFile)

function podmanWords(words: readonly string[]): string[] {
  return [...STORAGE, '--cgroup-manager=cgroupfs', '--runtime=runc', '--events-backend=file', ...words]
}

const BASE = 'localhost/node:24-bookworm'

/**
 * Makes an image like `node:24-bookworm-slim`, unless the storage has it: Debian by debootstrap, with Node.js and npm of npm's
 * registry.
 *
 * @returns its name.
 */
export function makeBaseImage(): string {
  if (buildah('images', '--quiet', '--filter', `reference=${BASE}`) !== '') return BASE
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-base-'))
  const [root, packages] = [join(folder, 'root'), join(folder, 'packages')]
  try {
    must('debootstrap', ['--variant=minbase', 'bookworm', root])
    mkdirSync(packages)
    must('npm', ['install', '--prefix', packages, '--no-audit', '--no-fund', 'node@24', 'npm@11'], packages)
    const local = join(root, 'usr/local')
    cpSync(join(packages, 'node_modules/node/bin/node'), join(local, 'bin/node'))
    const program = `node_modules/node/node_modules/node-linux-${process.arch}`
    cpSync(join(packages, program, 'LICENSE'), join(local, 'LICENSE'))
    cpSync(join(packages, 'node_modules/npm'), join(local, 'lib/node_modules/npm'), { recursive: true })
    symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'))
    const environment = ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin']
    const { NODE_EXTRA_CA_CERTS: certificates } = process.env
    if (certificates !== undefined) {
      cpSync(certificates, join(local, 'share/ca.crt'), { dereference: true })
      environment.push('NODE_EXTRA_CA_CERTS=/usr/local/share/ca.crt')
    }
    const container = buildah('from', 'scratch')
    buildah('add', '--quiet', container, root, '/')
    buildah('config', ...environment.flatMap((pair) => ['--env', pair]), container)
    buildah('commit', '--quiet', '--rm', container, BASE)
    return BASE
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Builds the image.
 *
 * @param from - The folder with the sources. Default: this one.
 * @returns the digest of its manifest.
 */
export function buildImage(name: string, base: string, from = ROOT): string {
  const npmrc = join(homedir(), '.npmrc')
  buildah(
    ...['bud', '--isolation=chroot', '--layers=false', '--timestamp=0', `--tag=${name}`],
    ...['--file', join(from, 'deploy/docker/Dockerfile')],
    ...['--ignorefile', join(from, 'deploy/docker/Dockerfile.dockerignore')],
    ...['--build-arg', `NODE_IMAGE=${base}`, '--build-arg', 'VERSION=0.1.0'],
    ...(existsSync(npmrc) ? [`--secret=id=npmrc,src=${npmrc}`] : []),
    from,
  )
  return buildah('inspect', '--type=image', '--format={{.FromImageDigest}}', name)
}

/** A running container. */
export interface Container {
  /** The id of its process 1, seen from outside. */
  readonly pid: number
  /** When process 1 had started, by `performance.now()`, with a precision of 5 ms. */
  readonly startedAt: number
  /** Everything printed so far. */
  output(): string
  /** Runs a program inside. @returns its exit code. */
  exec(...words: string[]): number | null
  /** Sends a signal to its process 1. */
  kill(signal: NodeJS.Signals): void
  /** Its exit code. */
  readonly ended: Promise<number>
}

/**
 * Runs a container with {@link RESTRICTIONS}.
 *
 * @param flags - More flags of `podman run`.
 */
export async function runContainer(
  image: string,
  flags: readonly string[],
  words: readonly string[],
): Promise<Container> {
  const pidFile = join(mkdtempSync(join(tmpdir(), 'wasm-serve-container-')), 'pid')
  const name = `wasm-serve-${process.pid}-${containers.size}`
  // The hard limits of this process: podman asks for more than it may have.
  const limits = ['nofile=1024:1024', 'nproc=4096:4096'].map((limit) => `--ulimit=${limit}`)
  const child = spawn(
    'podman',
    podmanWords([
      ...['run', '--rm', `--name=${name}`, `--pidfile=${pidFile}`, '--network=host', ...limits],
      ...[...RESTRICTIONS, ...flags, image, ...words],
    ]),
    { cwd: FOLDER, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  containers.add(child)
  let output = ''
  const keep = (text: string) => {
    output += text
  }
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', keep)
  const ended = once(child, 'close').then(([code]) => {
    rmSync(dirname(pidFile), { recursive: true, force: true })
    return Number(code)
  })
  let pid = 0
  while (pid === 0) {
    if (child.exitCode !== null) throw new Error(`${image} ${words.join(' ')} ended: ${output}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
    pid = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0
  }
  return {
    pid,
    startedAt: performance.now(),
    ended,
    output: () => output,
    exec: (...inside) => spawnSync('podman', podmanWords(['exec', name, ...inside]), { cwd: FOLDER }).status,
    kill: (signal) => process.kill(pid, signal),
  }
}

const containers = new Set<ChildProcess>()

/** Waits until all containers have ended, after SIGKILL if needed. */
export async function endContainers(): Promise<void> {
  const running = podman('ps', '--quiet', `--filter=name=wasm-serve-${process.pid}`)
  for (const id of running.split('\n').filter((id) => id !== '')) podman('kill', id)
  await Promise.all([...containers].map((child) => child.exitCode ?? once(child, 'close')))
}

/** A process of a container, from `/proc`. */
export interface ContainedProcess {
  readonly pid: number
  readonly state: string
  readonly parent: number
}

/** All processes below a process. */
export function descendantsOf(parent: number): ContainedProcess[] {
  const all = readdirSync('/proc').flatMap((name): ContainedProcess[] => {
    if (!/^\d+$/.test(name)) return []
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const [, state = '', ppid = ''] = stat.slice(stat.lastIndexOf(')')).split(' ')
      return [{ pid: Number(name), state, parent: Number(ppid) }]
    } catch {
      return [] // it has ended meanwhile
    }
  })
  const below = (pid: number): ContainedProcess[] =>
    all.filter((each) => each.parent === pid).flatMap((each) => [each, ...below(each.pid)])
  return below(parent)
}
