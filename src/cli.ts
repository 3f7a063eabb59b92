#!/usr/bin/env node
import './tick-shape.ts' // before V8 collects

import { buffer } from 'node:stream/consumers'
import type { WriteStream } from 'node:tty'
import type { Host } from './commands/command.ts'
import { COMMANDS, chooseCommand } from './commands/commands.ts'
import {
  CheckFailedError,
  ConfigInvalidError,
  ConfigUnreadableError,
  MountConflictError,
  OptionsError,
  UsageError,
} from './errors.ts'
import type { Terminal } from './log/log.ts'
import { printable } from './log/printable.ts'
import { Secrets } from './log/secrets.ts'

const host: Host = {
  environment: process.env,
  out: terminal(process.stdout),
  isOutTerminal: process.stdout.isTTY === true,
  writeBytes: (bytes) => process.stdout.write(bytes),
  writeError: (text) => process.stderr.write(text),
  readInput: () => buffer(process.stdin),
  program: [process.execPath, ...process.execArgv, ...process.argv.slice(1, 2)],
  logTerminal: process.stderr.isTTY ? terminal(process.stderr) : undefined,
  secrets: new Secrets(),
  commands: COMMANDS,
  parentId: () => process.ppid,
}

/** Of how the command was called or configured. */
const MISTAKES = [
  CheckFailedError,
  ConfigInvalidError,
  ConfigUnreadableError,
  MountConflictError,
  OptionsError,
  UsageError,
]

/** What Node.js throws where it was started with `--permission` and without what something takes. */
const DENIED = ['ERR_ACCESS_DENIED', 'ERR_DLOPEN_DISABLED']

// Who reads along may go away: that is no reason to end. A disk that is full loses what was asked for.
process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') return
  process.stderr.write(`wasm-serve: the output cannot be written: ${printable(message)}\n`)
  process.exitCode = 1
})
process.stderr.on('error', () => undefined)

try {
  const { command, argv } = await chooseCommand(process.argv.slice(2))
  await command.run(argv, host)
} catch (error) {
  process.stderr.write(`${host.secrets.hide(explain(error)).split('\n').map(printable).join('\n')}\n`)
  process.exitCode = isMistakeOfUser(error) ? 2 : 1
}

function terminal(stream: WriteStream): Terminal {
  return {
    write: (text) => stream.write(text),
    colours: stream.isTTY && stream.hasColors() && !process.env.NO_COLOR,
  }
}

function isMistakeOfUser(error: unknown): boolean {
  return MISTAKES.some((mistake) => error instanceof mistake)
}

/** A user's mistake is told in words; only a bug shows where it happened. */
function explain(error: unknown): string {
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_')) {
    return `wasm-serve: ${error.message}${error instanceof UsageError ? '\nTry wasm-serve --help' : ''}`
  }
  if (error instanceof Error && 'code' in error && DENIED.includes(String(error.code))) {
    const { permission = 'Addons' } = error as { permission?: string }
    return `wasm-serve: Node.js was started with --permission and without ${permission}: ${error.message}`
  }
  return `wasm-serve: this is a bug, please report it\n${error instanceof Error ? error.stack : error}`
}
