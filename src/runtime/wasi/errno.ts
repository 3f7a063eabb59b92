/** A parameter as passed by WebAssembly: an `i32` is a signed number, an `i64` a bigint. */
type Param = number | bigint

/** Wraps a function that throws its errors: the WASI function returns an errno. */
export function wasiFunction<Params extends Param[]>(
  run: (...params: Params) => void,
): (...params: Params) => number {
  return (...params) => {
    try {
      run(...params)
      return 0
    } catch (error) {
      return errnoOf(error)
    }
  }
}

/** The error names of WASI preview 1, in the order of their numbers. */
export const ERRNO_NAMES = [
  ...(['SUCCESS', 'E2BIG', 'EACCES', 'EADDRINUSE', 'EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EAGAIN'] as const),
  ...(['EALREADY', 'EBADF', 'EBADMSG', 'EBUSY', 'ECANCELED', 'ECHILD', 'ECONNABORTED'] as const),
  ...(['ECONNREFUSED', 'ECONNRESET', 'EDEADLK', 'EDESTADDRREQ', 'EDOM', 'EDQUOT', 'EEXIST'] as const),
  ...(['EFAULT', 'EFBIG', 'EHOSTUNREACH', 'EIDRM', 'EILSEQ', 'EINPROGRESS', 'EINTR', 'EINVAL'] as const),
  ...(['EIO', 'EISCONN', 'EISDIR', 'ELOOP', 'EMFILE', 'EMLINK', 'EMSGSIZE', 'EMULTIHOP'] as const),
  ...(['ENAMETOOLONG', 'ENETDOWN', 'ENETRESET', 'ENETUNREACH', 'ENFILE', 'ENOBUFS', 'ENODEV'] as const),
  ...(['ENOENT', 'ENOEXEC', 'ENOLCK', 'ENOLINK', 'ENOMEM', 'ENOMSG', 'ENOPROTOOPT', 'ENOSPC'] as const),
  ...(['ENOSYS', 'ENOTCONN', 'ENOTDIR', 'ENOTEMPTY', 'ENOTRECOVERABLE', 'ENOTSOCK', 'ENOTSUP'] as const),
  ...(['ENOTTY', 'ENXIO', 'EOVERFLOW', 'EOWNERDEAD', 'EPERM', 'EPIPE', 'EPROTO'] as const),
  ...(['EPROTONOSUPPORT', 'EPROTOTYPE', 'ERANGE', 'EROFS', 'ESPIPE', 'ESRCH', 'ESTALE'] as const),
  ...(['ETIMEDOUT', 'ETXTBSY', 'EXDEV', 'ENOTCAPABLE'] as const),
]

/** The name of a WASI error; Node and the operating system use the same names. */
export type ErrnoName = (typeof ERRNO_NAMES)[number]

const ERRNO_NUMBERS: ReadonlyMap<string, number> = new Map(ERRNO_NAMES.map((name, number) => [name, number]))

/** Ends a WASI function early. The guest sees only the number. */
export class WasiError extends Error {
  override readonly name = 'WasiError'
  readonly code: ErrnoName

  constructor(code: ErrnoName) {
    super(code)
    this.code = code
  }
}

/** The WASI number of an error. */
export function errno(name: ErrnoName): number {
  return ERRNO_NUMBERS.get(name) ?? IO
}

/**
 * The errno of a {@link WasiError} or of an error of the operating system.
 *
 * @throws the error itself if it is neither: a bug, or a condition that the guest cannot handle.
 */
function errnoOf(error: unknown): number {
  if (error instanceof WasiError) return errno(error.code)
  if (!isSystemError(error)) throw error
  return ERRNO_NUMBERS.get(error.code === 'EOPNOTSUPP' ? 'ENOTSUP' : error.code) ?? IO
}

const IO = ERRNO_NAMES.indexOf('EIO')

function isSystemError(error: unknown): error is Error & { code: string } {
  return error instanceof Error && 'syscall' in error && 'code' in error && typeof error.code === 'string'
}
