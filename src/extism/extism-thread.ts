import { parentPort } from 'node:worker_threads'
import type { GuestLogger } from './guest-context.ts'
import { GuestContext } from './guest-context.ts'
import { exitStatusOf, GuestInstance, mapMembers } from './guest-instance.ts'
import { joinBlocks } from './kernel-blocks.ts'
import type { Anything } from './output.ts'
import {
  type ThreadCall,
  type ThreadFailure,
  type ThreadMessage,
  type ThreadStart,
  waitForAnswer,
} from './thread-messages.ts'

/* The worker thread of `runInWorker`. It runs the guest. Host functions run in the thread that opened the plug-in. */

/** Ends the guest after a host function threw. The error itself stays in the thread of the host function. */
class HostThrew extends Error {
  override readonly name = 'HostThrew'
}

let callGuest: ((name: string) => number) | undefined

parentPort?.on('message', (message: ThreadStart | ThreadCall) => {
  try {
    if ('call' in message) say({ kind: 'done', code: callGuest?.(message.call) })
    else {
      callGuest = startGuest(message)
      say({ kind: 'done' })
    }
  } catch (thrown) {
    say({ kind: 'done', failure: toThreadFailure(thrown) })
  }
})

say({ kind: 'up' })

/** @returns a function that calls the guest's, and returns its return code. */
function startGuest({
  modules,
  options,
  config,
  memoryOptions,
  functions,
  memory,
  answer,
}: ThreadStart): (name: string) => number {
  const blocks = joinBlocks(memory)
  const context = new GuestContext({
    blocks,
    config,
    memory: memoryOptions,
    logger: logger(),
    logLevel: options.logLevel,
  })
  const named = Object.fromEntries(
    Object.entries(functions).map(([namespace, names]) => [
      namespace,
      Object.fromEntries(names.map((name) => [name, name])),
    ]),
  )
  const bridged = mapMembers(named, (name, namespace) => (...args: Anything[]) => {
    say({ kind: 'host', namespace, name, args })
    return waitForAnswer(answer, () => new HostThrew(`host function "${namespace}" "${name}" has thrown`))
  })
  const opened = new GuestInstance({ modules, options, context, functions: bridged, suspending: undefined })
  blocks.reset()
  return (name) => {
    blocks.forgetTaken()
    const run = opened.function(name)
    try {
      return opened.codeOf(name, run())
    } catch (thrown) {
      return exitStatusOf(thrown)
    }
  }
}

function logger(): GuestLogger {
  const at = (level: keyof GuestLogger) => (line: unknown) => say({ kind: 'log', level, line: String(line) })
  return { trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function toThreadFailure(thrown: unknown): ThreadFailure {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  return {
    isTrap: thrown instanceof WebAssembly.RuntimeError,
    isOfHost: thrown instanceof HostThrew,
    message: error.message,
    stack: error.stack,
  }
}

function say(message: ThreadMessage): void {
  parentPort?.postMessage(message)
}
