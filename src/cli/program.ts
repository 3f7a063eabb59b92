import '../platform/node-workarounds.ts' // before V8 collects

import { buffer } from 'node:stream/consumers'
import type { ReadStream } from 'node:tty'
import { Secrets } from '../observe/log/secrets.ts'
import { linesOf } from '../platform/lines.ts'
import { exitProcess } from '../platform/node-workarounds.ts'
import { stuckThreads } from '../platform/stuck-threads.ts'
import { printable } from '../platform/text.ts'
import { openProcessSignals } from '../server/shutdown.ts'
import { COMMANDS, main } from './cli.ts'
import type { Host, Keyboard } from './command.ts'
import { openTerminal } from './terminal.ts'

const host: Host = {
  environment: process.env,
  out: openTerminal(process.stdout, process.env),
  isOutTerminal: process.stdout.isTTY === true,
  writeBytes: (bytes) => process.stdout.write(bytes),
  sendBytes: (bytes) => new Promise((resolve) => process.stdout.write(bytes, (error) => resolve(!error))),
  writeError: (text) => process.stderr.write(text),
  readInput: () => buffer(process.stdin),
  readChunks: () => process.stdin,
  readLines: () => linesOf(process.stdin.setEncoding('utf8')),
  program: [process.execPath, ...process.execArgv, ...process.argv.slice(1, 2)],
  logTerminal: process.stderr.isTTY ? openTerminal(process.stderr, process.env) : undefined,
  logLines: undefined,
  secrets: new Secrets(),
  commands: COMMANDS,
  // npm, npx, pnpm and Yarn set it in the environment of their child processes.
  signals: openProcessSignals(
    process.env.npm_config_user_agent === undefined ? undefined : () => process.ppid,
  ),
  keyboard: process.stdin.isTTY ? keyboardOf(process.stdin) : undefined,
}

// A reader that closes the pipe (EPIPE) is not an error. A full disk is.
process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') return
  process.stderr.write(
    `wasm-serve: the output cannot be written: ${printable(message)} (WASM_SERVE_OUTPUT_UNWRITABLE)\n`,
  )
  process.exitCode = 1
})
process.stderr.on('error', () => undefined)

const code = await main(process.argv.slice(2), host)
if (code !== 0) {
  process.exitCode = code
  if (stuckThreads() > 0) exitProcess(code) // Node would wait for the threads
}

function keyboardOf(terminal: ReadStream): Keyboard {
  // On Windows, `kill` would end the process without a drain.
  const interrupt = () =>
    void (process.platform === 'win32' ? process.emit('SIGINT') : process.kill(process.pid, 'SIGINT'))
  return {
    interrupt,
    listen(press) {
      terminal.setRawMode(true)
      terminal.setEncoding('utf8').on('data', (keys: string) => {
        for (const key of keys) {
          if (key === '\x03') interrupt()
          else press(key)
        }
      })
    },
    release() {
      terminal.setRawMode(false)
    },
  }
}
