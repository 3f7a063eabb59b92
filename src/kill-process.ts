import { setFlagsFromString } from 'node:v8'
import { runInThisContext } from 'node:vm'

/**
 * Kills this process, from any of its threads, whatever the others do: with SIGKILL (exit code 137). Process 1 of a
 * container is spared all signals that come from inside, but not a breakpoint (SIGTRAP, 133), unless the process handles that signal.
 * `process.abort` would not do: a thread does not have it, and Node's handler of the SIGSEGV that ends it starts over
 * for ever.
 */
export function killProcess(): void {
  process.kill(process.pid, 'SIGKILL')
  setFlagsFromString('--allow-natives-syntax')
  runInThisContext('%SystemBreak()')
}
