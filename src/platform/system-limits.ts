import process from 'node:process'

/** Fewer open files are not enough to load the command's own modules. */
const LEAST_FILES = 64

const CODES = /\b(EMFILE|ENFILE|ENOSPC|EDQUOT|ENOMEM|EAGAIN)\b/

/**
 * Explains an error that is a limit of the operating system, with the limit and what to do. Its causes are looked at too.
 *
 * @returns undefined if it is none.
 */
export function explainLimit(error: unknown): string | undefined {
  for (let each = error, depth = 0; each instanceof Object && depth < 10; depth++) {
    const explained = explainOne(each)
    if (explained !== undefined) return explained
    each = 'cause' in each ? each.cause : undefined
  }
  return undefined
}

function explainOne(error: object): string | undefined {
  const { code, message, reason, syscall = '' } = error as Readonly<Record<string, string | undefined>>
  const text = message ?? reason ?? ''
  if (code === 'ERR_WORKER_INIT_FAILED') return explainCode(CODES.exec(text)?.[1] ?? 'EAGAIN', 'thread')
  // Files that cannot be opened are none that Node.js can find.
  if (code === 'ERR_MODULE_NOT_FOUND')
    return (openFiles() ?? LEAST_FILES) < LEAST_FILES ? tooManyFiles() : undefined
  // What comes from another thread has lost its code.
  return explainCode(code ?? /^(E[A-Z]+): /.exec(text)?.[1] ?? '', syscall)
}

function explainCode(code: string, syscall: string): string | undefined {
  const isWatch = syscall === 'watch'
  switch (code) {
    case 'EMFILE':
      return isWatch ? tooManyWatches('instances') : tooManyFiles()
    case 'ENFILE':
      return 'the system has as many open files as it may: raise it (sysctl fs.file-max), or end what holds them'
    case 'ENOSPC':
      return isWatch ? tooManyWatches('watches') : 'the disk is full: make room (df -h, df -i)'
    case 'EDQUOT':
      return "this user's share of the disk is used up: make room, or raise the quota"
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
  return 'no more threads or processes may be started: raise the limit (ulimit -u; TasksMax= of systemd, --pids-limit of Docker), or use fewer threads (workers, spareWorkers)'
}

function tooManyWatches(what: 'instances' | 'watches'): string {
  return `no more files can be watched: raise the limit (sysctl fs.inotify.max_user_${what})`
}

let known: number | undefined

/** How many open files the process may have; undefined if that is not known, or there is no limit. Without a file. */
function openFiles(): number | undefined {
  if (known !== undefined || !process.report) return known
  // Otherwise it looks up the name of each client. Not in @types/node of each version.
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files?: { readonly soft?: number | string } }
  }
  const soft = Number(userLimits?.open_files?.soft)
  known = Number.isFinite(soft) ? soft : undefined
  return known
}
