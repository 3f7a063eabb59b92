import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { KvClient, KvOperation } from '../../guest/store/kv.ts'
import type { Vars } from '../../guest/vars.ts'
import type { Caller } from '../../observe/observe.ts'
import type { GuestHttp, HttpResponse } from '../../runtime/kernel-host.ts'
import type { HostAnswer, HostRequest } from './protocol.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** The call for which a guest asks the host. */
export interface BridgeCall {
  /** The caller of the running call; undefined while the guest starts. */
  readonly caller: Caller | undefined
  /** Whether something ends the call if it takes too long. */
  readonly hasDeadline: boolean
  /** Ends when the thread does, as it does at the call's deadline. */
  readonly signal: AbortSignal
}

/** Services of the host for guests, by the name of the operation. */
export interface HostOperations {
  readonly [operation: string]: (args: readonly unknown[], call: BridgeCall) => unknown
}

/** The main thread's end of the bridge: it answers, and never waits for a worker. */
export class HostBridge {
  readonly #operations: HostOperations

  readonly #hasDeadline: boolean

  /** @param hasDeadline - Of the calls whose guests ask. */
  constructor(operations: HostOperations, hasDeadline: boolean) {
    this.#operations = operations
    this.#hasDeadline = hasDeadline
  }

  /**
   * Answers what one thread asks.
   *
   * @param callerOf - The caller of the call with a number.
   * @param onAsked - Called before anything is answered.
   */
  serve(
    port: MessagePort,
    stamp: Stamp,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    port.on('message', async (request: HostRequest) => {
      onAsked()
      const running = stamp.running()
      const caller = running && callerOf(running.call)
      const answer = await this.answer(request, caller, signal)
      if (signal.aborted) return
      port.postMessage(answer)
      stamp.hostAnswered()
    })
    port.unref()
  }

  /** @param caller - The caller of the running call; undefined while the guest starts. @param signal - See {@link BridgeCall}. */
  async answer(
    { operation, args }: HostRequest,
    caller: Caller | undefined,
    signal: AbortSignal,
  ): Promise<HostAnswer> {
    try {
      const run = Object.hasOwn(this.#operations, operation) ? this.#operations[operation] : undefined
      return { value: await run?.(args, { caller, signal, hasDeadline: this.#hasDeadline }) }
    } catch (error) {
      return { failure: error instanceof Error ? error.message : String(error) }
    }
  }
}

/** Access to the services of the main thread. */
export interface HostAsker {
  /** Blocks until the answer arrives. @throws Error with the message of the host if the operation failed. */
  ask(operation: string, ...args: readonly unknown[]): unknown
}

/** The worker's end of the bridge to services of the main thread. `ask` blocks the thread. */
export class HostClient implements HostAsker {
  readonly #port: MessagePort
  readonly #stamp: Stamp

  constructor(port: MessagePort, stamp: Stamp) {
    this.#port = port
    this.#stamp = stamp
  }

  /**
   * Waits without a limit of its own: the main thread ends this one at its deadline, and knows for how long it was held
   * itself.
   *
   * @throws Error with the message of the host if the operation failed.
   */
  ask(operation: string, ...args: readonly unknown[]): unknown {
    this.#stamp.beginAsking(monotonicMs())
    this.#port.postMessage({ operation, args } satisfies HostRequest)
    for (;;) {
      const received = receiveMessageOnPort(this.#port)
      if (received) {
        this.#stamp.endAsking()
        return unwrapHostAnswer(received.message)
      }
      this.#stamp.waitForHost()
    }
  }
}

/** @throws Error with the message of the host if the operation failed. */
export function unwrapHostAnswer(answer: HostAnswer): unknown {
  if ('failure' in answer) throw new Error(answer.failure)
  return answer.value
}

/** The store of the main thread, as a worker sees it: the worker waits for it. */
export function bridgedKv(client: HostAsker): KvClient {
  return {
    sync: 'all',
    // Arguments read from the guest are copies with their own buffers, so a message carries no other bytes.
    call: (operation, ...args) => client.ask('kv', operation, ...args) as never,
  }
}

/** The main thread's side of {@link bridgedKv}. Operations complete even if the worker ends. */
export function kvOperations(client: KvClient): HostOperations {
  return {
    kv: ([operation, ...args]) => client.call(operation as KvOperation, ...(args as never)),
  }
}

/** Variables that live on the main thread, as a worker sees them. */
export function bridgedVars(client: HostAsker): Vars {
  return {
    get: (name) => client.ask('var_get', name) as Uint8Array | undefined,
    set: (name, value) => void client.ask('var_set', name, new Uint8Array(value)), // not all of its buffer
    delete: (name) => void client.ask('var_delete', name),
  }
}

/** The main thread's side of {@link bridgedVars}. */
export function varOperations(vars: Vars): HostOperations {
  return {
    var_get: ([name]) => vars.get(name as string),
    var_set: ([name, value]) => vars.set(name as string, value as Uint8Array),
    var_delete: ([name]) => vars.delete(name as string),
  }
}

/** HTTP requests that the main thread sends, while the worker waits. */
export function bridgedHttp(client: HostAsker): GuestHttp {
  return {
    isAsync: false,
    // Copies: a message carries all of the buffer in which bytes lie, and that is the kernel's memory.
    send: (request, body) =>
      client.ask('http', new Uint8Array(request), new Uint8Array(body)) as HttpResponse,
  }
}
