import { execFile } from 'node:child_process'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import process from 'node:process'
import type { Log } from '../../observe/log/guest-log.ts'

/** The operator's options for the processes of guests. */
export interface SandboxOptions {
  /** User and group ids that processes switch to if the server is root: `65534:65534`. */
  readonly user?: string | undefined
  /** A cgroup folder that each process joins before it sees a guest. */
  readonly cgroup?: string | undefined
}

/** The resources that the guests of a process need. It gets no others. */
export interface ProcessNeeds {
  /** Maximum heap of JavaScript, which also holds garbage-collected WebAssembly objects, in MiB. */
  readonly heapMiB: number
  /** Maximum writable memory of the process, in bytes. */
  readonly dataBytes: number
  /** Readable files and folders. */
  readonly reads: readonly string[]
  /** Writable files and folders. */
  readonly writes: readonly string[]
}

/** The layers of the sandbox, and whether they are available on this machine. */
interface SandboxReport {
  readonly permissionModel: boolean
  readonly networkNamespace: boolean
  /** Namespaces of interprocess communication and of host names. */
  readonly otherNamespaces: boolean
  /** The user that the process switches to; undefined: the server's. */
  readonly user: string | undefined
  readonly capabilities: 'none' | 'kept'
  readonly noNewPrivileges: boolean
  readonly resourceLimits: boolean
  /** The mechanism that ends it when the server ends while a guest runs. */
  readonly endsWithServer: 'kernel' | 'thread'
  /** Whether descriptors that the server inherited and did not close are closed. */
  readonly inheritedDescriptors: 'closed' | 'unknown'
}

/** How processes are started on this machine. */
export interface Sandbox {
  readonly report: SandboxReport
  /** The command line of a process. @param program - Arguments of its program. */
  command(needs: ProcessNeeds): readonly [file: string, ...args: string[]]
  /** Arguments of the program. */
  readonly programArgs: readonly string[]
}

/** The default: `nobody` of Debian, Red Hat and Alpine. */
const DEFAULT_USER = '65534:65534'

/** Standard folders of Linux tools. `PATH` is not used: a sandbox must not depend on the environment. */
const TOOL_FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin']

/** Maximum number of open files of a process, including those of its guests. */
const OPEN_FILES = 256

/** Time limit for the trial of a tool. */
const TRIAL_MS = 5_000

/** The highest descriptor that a process inherits on purpose. */
const LAST_FD = 6

const O_CLOEXEC = 0o2000000

/**
 * Detects the sandbox of this machine. Each tool is tried in its real use, with this Node.js.
 *
 * @param user - See {@link SandboxOptions}.
 * @param folders - Folders to search for tools.
 */
export async function openSandbox(user = DEFAULT_USER, folders = TOOL_FOLDERS): Promise<Sandbox> {
  const isLinux = process.platform === 'linux'
  const isRoot = process.getuid?.() === 0
  const namespaces = isLinux
    ? await choose([], namespaceChoices(findTool('unshare', folders), isRoot))
    : NO_PREFIX
  const limits = isLinux
    ? await choose(namespaces.words, limitChoices(findTool('prlimit', folders)))
    : NO_PREFIX
  const before = [...namespaces.words, ...limits.words]
  const privileges = isLinux
    ? await choose(before, privilegeChoices(findTool('setpriv', folders), isRoot, user))
    : NO_PREFIX
  const inherited = inheritedDescriptors()
  const report: SandboxReport = {
    permissionModel: PERMISSION_FLAG !== undefined,
    networkNamespace: false,
    otherNamespaces: false,
    user: undefined,
    capabilities: !isRoot || namespaces.holds.capabilities === 'none' ? 'none' : 'kept',
    noNewPrivileges: false,
    resourceLimits: false,
    endsWithServer: 'thread',
    inheritedDescriptors: inherited ? 'closed' : 'unknown',
    ...namespaces.holds,
    ...limits.holds,
    ...privileges.holds,
  }
  const isWatched = report.endsWithServer === 'thread'
  return {
    report,
    programArgs: [inherited?.join() ?? '', isWatched ? 'watch' : ''],
    command(needs) {
      const words = [
        ...namespaces.words,
        ...limits.words,
        ...(limits === NO_PREFIX ? [] : limitsOf(needs)),
        ...privileges.words,
        ...nodeWords(needs, isWatched),
      ]
      return [words[0] ?? process.execPath, ...words.slice(1)]
    },
  }
}

/** Logs the layers of the sandbox once. */
export function logSandbox({ report }: Sandbox, { cgroup }: SandboxOptions, log: Log): void {
  const yes = (holds: boolean) => (holds ? 'yes' : 'no')
  const words = [
    `permission model ${yes(report.permissionModel)}`,
    `network namespace ${yes(report.networkNamespace)}`,
    `other namespaces ${yes(report.otherNamespaces)}`,
    `user ${report.user ?? "the server's"}`,
    `capabilities ${report.capabilities}`,
    `no_new_privs ${yes(report.noNewPrivileges)}`,
    `resource limits ${yes(report.resourceLimits)}`,
    `terminated with the server by ${report.endsWithServer === 'kernel' ? 'the kernel' : 'a thread'}`,
    `inherited descriptors ${report.inheritedDescriptors}`,
    `cgroup ${cgroup ?? 'none given'}`,
  ]
  log.info({ sandbox: { ...report, cgroup } }, `subprocess sandbox: ${words.join(', ')}`)
}

/** The prefix of a command, and the layers of the sandbox that it adds. */
interface CommandPrefix {
  readonly words: readonly string[]
  readonly holds: Partial<SandboxReport>
}

const NO_PREFIX: CommandPrefix = { words: [], holds: {} }

/** The first variant with which Node.js starts. */
async function choose(before: readonly string[], choices: readonly CommandPrefix[]): Promise<CommandPrefix> {
  for (const choice of choices) if (await starts([...before, ...choice.words])) return choice
  return NO_PREFIX
}

function starts(words: readonly string[]): Promise<boolean> {
  const [file = '', ...args] = [...words, process.execPath, '--version']
  return new Promise((resolve) => {
    execFile(file, args, { cwd: '/', env: {}, timeout: TRIAL_MS }, (error) => resolve(error === null))
  })
}

/** A new user namespace removes the capabilities of a non-root user when the next program starts. */
function namespaceChoices(unshare: string | undefined, isRoot: boolean): CommandPrefix[] {
  if (!unshare) return []
  const net = { networkNamespace: true }
  const all = { ...net, otherNamespaces: true }
  const owned: CommandPrefix[] = [
    { words: [unshare, '-c', '-n', '-i', '-u', '--'], holds: all },
    { words: [unshare, '-c', '-n', '--'], holds: net },
  ]
  const direct: CommandPrefix[] = [
    { words: [unshare, '-n', '-i', '-u', '--'], holds: all },
    { words: [unshare, '-n', '--'], holds: net },
  ]
  return isRoot ? [...direct, ...owned] : owned
}

function limitChoices(prlimit: string | undefined): CommandPrefix[] {
  if (!prlimit) return []
  return [{ words: [prlimit, '--core=0', `--nofile=${OPEN_FILES}`], holds: { resourceLimits: true } }]
}

function privilegeChoices(setpriv: string | undefined, isRoot: boolean, user: string): CommandPrefix[] {
  if (!setpriv) return []
  const [uid = '', gid = uid] = user.split(':')
  const other = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  const noCapabilities = ['--inh-caps=-all', '--bounding-set=-all']
  const [noNew, dies] = ['--no-new-privs', '--pdeathsig=KILL']
  const least = { noNewPrivileges: true } as const
  const kernel = { ...least, endsWithServer: 'kernel' } as const
  const asRoot: CommandPrefix[] = [
    {
      words: [setpriv, ...other, ...noCapabilities, noNew, dies, '--'],
      holds: { ...kernel, user, capabilities: 'none' },
    },
    { words: [setpriv, ...noCapabilities, noNew, dies, '--'], holds: { ...kernel, capabilities: 'none' } },
  ]
  return [
    ...(isRoot ? asRoot : []),
    { words: [setpriv, noNew, dies, '--'], holds: kernel },
    { words: [setpriv, noNew, '--'], holds: least },
  ]
}

/**
 * V8 reserves ten GiB of addresses for each memory of a guest, so the limit applies to writable memory. Without writable
 * files, no byte of a file can be written.
 */
function limitsOf({ dataBytes, writes }: ProcessNeeds): string[] {
  return [`--data=${dataBytes}`, ...(writes.length === 0 ? ['--fsize=0'] : []), '--']
}

/** The flag in this version of Node.js. */
const PERMISSION_FLAG = ['--permission', '--experimental-permission'].find((flag) =>
  process.allowedNodeEnvironmentFlags.has(flag),
)

function nodeWords({ heapMiB, reads, writes }: ProcessNeeds, isWatched: boolean): string[] {
  return [
    process.execPath,
    ...(PERMISSION_FLAG === undefined
      ? []
      : [
          PERMISSION_FLAG,
          ...outermost(reads).map((path) => `--allow-fs-read=${path}`),
          ...outermost(writes).map((path) => `--allow-fs-write=${path}`),
          ...(isWatched ? ['--allow-worker'] : []),
        ]),
    '--no-warnings',
    '--no-addons',
    '--disallow-code-generation-from-strings',
    `--max-old-space-size=${heapMiB}`,
    '--max-semi-space-size=2', // MiB: calls leave little garbage, and a process should be small
    '--v8-pool-size=2', // compiler threads: the default of four would exceed a guest's share of the cores
    '--input-type=commonjs',
    '-',
  ]
}

/** @returns undefined if it does not exist or is not executable. */
function findTool(name: string, folders: readonly string[]): string | undefined {
  return folders
    .map((folder) => `${folder}/${name}`)
    .find((path) => {
      try {
        accessSync(path, constants.X_OK)
        return true
      } catch {
        return false // try the next folder
      }
    })
}

/**
 * Descriptors that the server inherited and that its children would inherit too. Node.js marks its own `O_CLOEXEC`.
 *
 * @returns undefined if they cannot be listed, as on systems other than Linux.
 */
function inheritedDescriptors(): number[] | undefined {
  try {
    return readdirSync('/proc/self/fdinfo')
      .map(Number)
      .filter((fd) => fd > LAST_FD && isInherited(fd))
  } catch {
    return undefined // no such folder, or no permission
  }
}

function isInherited(fd: number): boolean {
  try {
    const [, flags = ''] =
      /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1')) ?? []
    return (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    return false // closed in the meantime
  }
}

/** Paths to read for a module of host functions: its folder with all subfolders. */
export function readsOfModule(path: string): string[] {
  return [below(dirname(path))]
}

/** Paths to read for a folder of a guest. With `/proc`, it is accessed through its open descriptor. */
export function pathsOfFolder(path: string): string[] {
  return process.platform === 'linux' ? [below(path), '/proc/self/fd/*'] : [below(path)]
}

/** Includes the folder itself. */
function below(folder: string): string {
  return folder.endsWith('/') ? `${folder}*` : `${folder}/*`
}

/** Node.js 20 fails if one path is below another. */
function outermost(paths: readonly string[]): string[] {
  const isBelow = (path: string, other: string) => path !== other && path.startsWith(other.slice(0, -1))
  return paths.filter((path) => !paths.some((other) => isBelow(path, other)))
}
