import process from 'node:process'

/** The code of an error of the system or of Node.js; undefined if it has none. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The problem with a file or folder, in plain words where the code of the system's error is known. */
export function fileProblem(error: unknown): string {
  switch (errorCode(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'there is no such file'
    case 'EISDIR':
      return 'it is a directory'
    case 'EACCES':
    case 'EPERM':
      return 'no permission to read it'
    default:
      return explainLimit(error) ?? (error instanceof Error ? error.message : String(error))
  }
}

/** The command cannot load its own modules with a lower limit of open files. */
const MIN_OPEN_FILES = 64

const LIMIT_CODES = /\b(EMFILE|ENFILE|ENOSPC|EDQUOT|ENOMEM|EAGAIN)\b/

/**
 * Explains an error that comes from a limit of the operating system: the limit and the remedy. Checks its causes too.
 *
 * @returns undefined if the error has another reason.
 */
export function explainLimit(error: unknown): string | undefined {
  for (const each of causesOf(error)) {
    const explained = explainOne(each)
    if (explained !== undefined) return explained
  }
  return undefined
}

/** Whether V8 has not found the addresses for a WebAssembly memory. */
export function isOutOfAddresses(error: unknown): boolean {
  return causesOf(error).some((each) => NO_ADDRESSES.test(textOf(each)))
}

const NO_ADDRESSES = /allocate (?:Wasm )?memory|reserve the addresses of a WebAssembly memory/

/** An error, and its causes. */
export function causesOf(error: unknown): object[] {
  const found: object[] = []
  for (
    let each = error;
    each instanceof Object && found.length < 10;
    each = 'cause' in each ? each.cause : undefined
  )
    found.push(each)
  return found
}

/** The message of an error, or of one that another thread has sent. */
export function textOf(error: object): string {
  const { message, reason } = error as Readonly<Record<string, string | undefined>>
  return message ?? reason ?? ''
}

function explainOne(error: object): string | undefined {
  const { code, syscall = '' } = error as Readonly<Record<string, string | undefined>>
  const text = textOf(error)
  if (NO_ADDRESSES.test(text)) return tooFewAddresses()
  if (code === 'ERR_WORKER_INIT_FAILED') return explainCode(LIMIT_CODES.exec(text)?.[1] ?? 'EAGAIN', 'thread')
  // Node.js reports a module that it cannot open as missing.
  if (code === 'ERR_MODULE_NOT_FOUND')
    return (openFiles() ?? MIN_OPEN_FILES) < MIN_OPEN_FILES ? tooManyFiles() : undefined
  // An error from another thread has lost its code.
  return explainCode(code ?? /^(E[A-Z]+): /.exec(text)?.[1] ?? '', syscall)
}

function explainCode(code: string, syscall: string): string | undefined {
  switch (code) {
    case 'EMFILE':
      return tooManyFiles()
    case 'ENFILE':
      return 'the system has reached its limit of open files: raise it (sysctl fs.file-max), or stop the processes that use them'
    case 'ENOSPC':
      return 'the disk is full: free space (df -h, df -i)'
    case 'EDQUOT':
      return "this user's disk quota is exceeded: free space, or raise the quota"
    case 'ENOMEM':
      return 'the system has no memory left: raise the limit of the process or its container, or use fewer threads (workers, spareWorkers)'
    case 'EAGAIN':
      return syscall === 'thread' || syscall.startsWith('spawn') ? tooManyThreads() : undefined
    default:
      return undefined
  }
}

function tooManyFiles(): string {
  const limit = openFiles()
  return `too many open files: the process may have ${limit ?? 'no more'} (ulimit -n; LimitNOFILE= of systemd, --ulimit nofile= of Docker). A connection takes one, a worker thread four: raise the limit`
}

function tooManyThreads(): string {
  return 'the limit of threads or processes is reached: raise the limit (ulimit -u; TasksMax= of systemd, --pids-limit of Docker), or use fewer threads (workers, spareWorkers)'
}

/** What V8 reserves for a memory does not count for control groups, but for the limit of addresses. */
function tooFewAddresses(): string {
  const limit = limitOf('virtual_memory_bytes') ?? limitOf('virtual_memory_kbytes') // before Node.js 24
  const remedy =
    limit === undefined
      ? 'use fewer instances (workers, spareWorkers, maxInstances), or raise the limits of the system (sysctl vm.max_map_count, vm.overcommit_memory)'
      : 'remove the limit of addresses of this process (ulimit -v; LimitAS= of systemd), and limit its memory by a control group (MemoryMax= of systemd, --memory of Docker)'
  return `V8 cannot reserve the addresses of a WebAssembly memory, about 10 GiB: ${remedy}`
}

/** The limit of open files; undefined if it is unknown or unlimited. Reading it opens no file. */
export function openFiles(): number | undefined {
  return limitOf('open_files')
}

type LimitName = 'open_files' | 'virtual_memory_bytes' | 'virtual_memory_kbytes'

let limits: { readonly [Name in LimitName]?: { readonly soft?: number | string } } | undefined

/** A limit of the process; undefined if it is unknown or unlimited. */
function limitOf(name: LimitName): number | undefined {
  limits ??= readLimits()
  const soft = Number(limits[name]?.soft)
  return Number.isFinite(soft) ? soft : undefined
}

function readLimits(): NonNullable<typeof limits> {
  if (!process.report) return {}
  // Otherwise the report resolves the host name of each client. Some versions of @types/node lack the property.
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits = {} } = process.report.getReport() as { readonly userLimits?: typeof limits }
  return userLimits
}
