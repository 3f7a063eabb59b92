import { parentPort } from 'node:worker_threads'
import type { GuestLogger } from './guest-context.ts'
import { GuestContext } from './guest-context.ts'
import { GuestInstance, isGoodExit, mapMembers } from './guest-instance.ts'
import { joinBlocks } from './kernel-blocks.ts'
import type { Anything } from './output.ts'
import {
  type ThreadCall,
  type ThreadFailure,
  type ThreadMessage,
  type ThreadStart,
  waitForAnswer,
} from './thread-messages.ts'

/* A thread of `runInWorker`, which runs the guest. Host functions run in the thread that created the plug-in. */

/** Ends the guest: the host function's error stays in the other thread. */
class HostThrew extends Error {
  override readonly name = 'HostThrew'
}

let guest: GuestInstance | undefined

parentPort?.on('message', (message: ThreadStart | ThreadCall) => {
  try {
    if ('call' in message) guest?.function(message.call)()
    else guest = startGuestThread(message)
    say({ kind: 'done' })
  } catch (thrown) {
    say(isGoodExit(thrown) ? { kind: 'done' } : { kind: 'done', failure: toThreadFailure(thrown) })
  }
})

say({ kind: 'up' })

function startGuestThread({
  modules,
  options,
  config,
  memoryOptions,
  functions,
  memory,
  answer,
}: ThreadStart): GuestInstance {
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
  const bridged = mapMembers(named, (name, _label, namespace) => (...args: Anything[]) => {
    say({ kind: 'host', namespace, name, args })
    return waitForAnswer(answer, () => new HostThrew(`host function "${namespace}" "${name}" has thrown`))
  })
  const opened = new GuestInstance({ modules, options, context, functions: bridged, suspending: undefined })
  blocks.reset()
  return opened
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
