import { errno } from './errno.ts'

/** The guest ended its program with `proc_exit`. With code 0 from a command's `_start`, that is how it should end. */
export class ProcExit extends Error {
  override readonly name = 'ProcExit'
  readonly code: number

  constructor(code: number) {
    super(`the guest exited with status ${code}`)
    this.code = code
  }
}

/** `proc_*` and `sched_yield`: there are no signals, and nobody to yield to. */
export const processFunctions = {
  proc_exit(code: number): never {
    throw new ProcExit(code >>> 0)
  },
  proc_raise: (_signal: number): number => errno('ENOSYS'),
  sched_yield: (): number => 0,
}
