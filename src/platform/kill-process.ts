import { setFlagsFromString } from 'node:v8'
import { runInThisContext } from 'node:vm'

/**
 * Ends this process with an exit code, although threads are stuck: `process.exit` would wait for them. Node's WASI calls
 * `exit` of the C library, which waits for none. (https://github.com/nodejs/uvwasi, `uvwasi_proc_exit`) Where it is
 * refused, by Node's permission model, the process is killed.
 */
export function exitProcess(code: number): void {
  try {
    const { WASI } = process.getBuiltinModule('node:wasi')
    const wasi = new WASI({ version: 'preview1', returnOnExit: false })
    wasi.start(new WebAssembly.Instance(exitModule(code), { wasi_snapshot_preview1: wasi.wasiImport }))
  } catch {
    // The process is still there.
  }
  killProcess()
}

/** A program that ends with this status, of 0 to 127. */
function exitModule(status: number): WebAssembly.Module {
  const name = (text: string) => [text.length, ...Buffer.from(text)]
  const section = (id: number, ...bytes: number[]) => [id, bytes.length, ...bytes]
  return new WebAssembly.Module(
    Uint8Array.of(
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, 2, 0x60, 1, 0x7f, 0, 0x60, 0, 0), // types: (i32) -> (), () -> ()
      ...section(2, 1, ...name('wasi_snapshot_preview1'), ...name('proc_exit'), 0, 0),
      ...section(3, 1, 1),
      ...section(5, 1, 0, 0),
      ...section(7, 2, ...name('memory'), 2, 0, ...name('_start'), 0, 1),
      ...section(10, 1, 7, 0, 0x41, status | 0x80, 0, 0x10, 0, 0x0b), // i32.const status; call 0
    ),
  )
}

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
