import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { sendToAgent } from '../../guest/agent.ts'
import type { KvClient, KvOperation } from '../../guest/store/kv.ts'
import type { MaybePromise } from '../../guest/store/store.ts'
import { after } from '../../guest/streams/after.ts'
import {
  callStream,
  isNextMessage,
  type StreamClient,
  type StreamHost,
  type StreamOperation,
} from '../../guest/streams/operations.ts'
import { type Vars, VarsFull } from '../../guest/vars.ts'
import type { Caller } from '../../observe/observe.ts'
import type { GuestHttp, HttpResponse } from '../../runtime/kernel-host.ts'
import type { HostAnswer, HostRequest, SuspendedAnswer, SuspendedRequest } from './protocol.ts'
import { isToBeEnded } from './runner.ts'
import { monotonicMs, type Stamp } from './stamp.ts'

/** The call whose guest uses the host. */
export interface BridgeCall {
  /** The caller of the running call; undefined while the guest starts. */
  readonly caller: Caller | undefined
  /** Whether a deadline ends the call. */
  readonly hasDeadline: boolean
  /** Aborted when the thread ends, as it does at the call's deadline. */
  readonly signal: AbortSignal
}

/** Services of the host for guests, by the name of the operation. */
export interface HostOperations {
  /** Returns the value, or a promise of it. */
  readonly [operation: string]: (args: readonly unknown[], call: BridgeCall) => unknown
}

/** The main thread's end of the bridge: it answers, and never waits for a worker. */
export class HostBridge {
  readonly #operations: HostOperations

  readonly #hasDeadline: boolean

  /** @param hasDeadline - Whether calls have a deadline. */
  constructor(operations: HostOperations, hasDeadline: boolean) {
    this.#operations = operations
    this.#hasDeadline = hasDeadline
  }

  /**
   * Answers the requests of one thread.
   *
   * @param callerOf - Returns the caller of a call by its number.
   * @param onAsked - Called before anything is answered.
   */
  serve(
    port: MessagePort,
    stamp: Stamp,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    const reply = (answer: HostAnswer, { operation }: HostRequest) => {
      if (signal.aborted) return
      port.postMessage(answer, operation === STREAM ? buffersOfReply(answer) : [])
      stamp.hostAnswered()
    }
    port.on('message', (request: HostRequest) => {
      onAsked()
      const running = stamp.running()
      const caller = running && callerOf(running.call)
      void after(this.answer(request, caller, signal), (answer) => reply(answer, request))
    })
    port.unref()
  }

  /**
   * Answers the requests of the suspended guests of one thread. A guest that continues after its client has gone, and is to be
   * ended then, gets no answer.
   *
   * @param callerOf - See {@link serve}.
   * @param onAsked - See {@link serve}.
   */
  serveSuspended(
    port: MessagePort,
    stamp: Stamp,
    signal: AbortSignal,
    callerOf: (call: number) => Caller | undefined,
    onAsked: () => void,
  ): void {
    const reply = (answer: HostAnswer, call: number, caller: Caller | undefined) => {
      if (signal.aborted) return
      const isEnded = !caller || isToBeEnded({ caller })
      const message: SuspendedAnswer = { call, answer: isEnded ? undefined : answer }
      port.postMessage(message, isEnded ? [] : buffersOfReply(answer))
      stamp.replied()
    }
    port.on('message', ({ call, ...request }: SuspendedRequest) => {
      onAsked()
      const caller = callerOf(call)
      void after(this.answer(request, caller, signal, false), (answer) => reply(answer, call, caller))
    })
    port.unref()
  }

  /**
   * Answers at once if the operation does: a thread that has its answer runs while this one writes to a client.
   *
   * @param caller - The caller of the running call; undefined while the guest starts.
   * @param signal - See {@link BridgeCall}.
   * @param hasDeadline - Whether a deadline ends the request. Default: that of calls does.
   */
  answer(
    { operation, args }: HostRequest,
    caller: Caller | undefined,
    signal: AbortSignal,
    hasDeadline = this.#hasDeadline,
  ): MaybePromise<HostAnswer> {
    try {
      const run = Object.hasOwn(this.#operations, operation) ? this.#operations[operation] : undefined
      const value = run?.(args, { caller, signal, hasDeadline })
      return value instanceof Promise ? value.then((later) => ({ value: later }), toHostFailure) : { value }
    } catch (error) {
      return toHostFailure(error)
    }
  }
}

function toHostFailure(error: unknown): HostAnswer {
  return { failure: error instanceof Error ? error.message : String(error) }
}

/** Access to the services of the main thread. */
export interface HostAsker {
  /** Blocks until the answer arrives. @throws Error with the message of the host if the operation failed. */
  ask(operation: string, ...args: readonly unknown[]): unknown

  /**
   * The same, but the time until the answer does not count toward the deadline of the call. Bytes change their owner with
   * their whole buffer, in both directions.
   */
  askUncounted(operation: string, ...args: readonly unknown[]): unknown
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
   * Waits without a limit: the main thread terminates this thread at the deadline, and accounts for times when it was
   * blocked itself.
   *
   * @throws Error with the message of the host if the operation failed.
   */
  ask(operation: string, ...args: readonly unknown[]): unknown {
    this.#stamp.beginAsking(monotonicMs())
    const answer = this.#exchange({ operation, args })
    this.#stamp.endAsking()
    return unwrapHostAnswer(answer)
  }

  askUncounted(operation: string, ...args: readonly unknown[]): unknown {
    this.#stamp.beginPause(monotonicMs())
    const answer = this.#exchange({ operation, args }, args.flatMap(buffersOf))
    this.#stamp.endPause(monotonicMs(), 'value' in answer && isNextMessage(args[0], answer.value))
    return unwrapHostAnswer(answer)
  }

  #exchange(request: HostRequest, moved: ArrayBuffer[] = []): HostAnswer {
    this.#port.postMessage(request, moved)
    for (;;) {
      const received = receiveMessageOnPort(this.#port)
      if (received) return received.message
      this.#stamp.waitForHost()
    }
  }
}

/** @throws Error with the message of the host if the operation failed. */
export function unwrapHostAnswer(answer: HostAnswer): unknown {
  if ('failure' in answer) throw new Error(answer.failure)
  return answer.value
}

/** The main thread's store for a worker, which waits for each operation. */
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

/** The main thread's variables for a worker. */
export function bridgedVars(client: HostAsker): Vars {
  return {
    get: (name) => client.ask('var_get', name) as Uint8Array | undefined,
    set(name, value) {
      const limit = client.ask('var_set', name, new Uint8Array(value)) // a copy without the rest of the buffer
      if (limit !== undefined) throw new VarsFull(limit as number)
    },
    delete: (name) => void client.ask('var_delete', name),
  }
}

/** The main thread's side of {@link bridgedVars}. */
export function varOperations(vars: Vars): HostOperations {
  return {
    var_get: ([name]) => vars.get(name as string),
    /** Returns the limit if there is no room: errors lose their class between threads. */
    var_set([name, value]) {
      try {
        return vars.set(name as string, value as Uint8Array)
      } catch (error) {
        if (error instanceof VarsFull) return error.limit
        throw error
      }
    },
    var_delete: ([name]) => vars.delete(name as string),
  }
}

/** Messages of a guest in a worker to the client of its call, and questions with their answers. */
export function bridgedAgent(client: HostAsker): (name: string, text: string) => string | undefined {
  return (name, text) => client.ask('agent', name, text) as string | undefined
}

/** The main thread's side of {@link bridgedAgent}. */
export const AGENT_OPERATIONS: HostOperations = {
  agent: ([name, text], { caller }) => sendToAgent(name, text, caller?.host),
}

/** The operation of streams: its bytes are moved between the threads and not copied. */
const STREAM = 'stream'

/** The buffers of the bytes among the arguments of {@link STREAM}, which are moved. */
export function buffersOf(value: unknown): ArrayBuffer[] {
  const isMoved = value instanceof Uint8Array && value.length > 0 && value.buffer instanceof ArrayBuffer
  return isMoved ? [value.buffer as ArrayBuffer] : []
}

function buffersOfReply(answer: HostAnswer): ArrayBuffer[] {
  if (!('value' in answer) || typeof answer.value !== 'object' || answer.value === null) return []
  return 'answer' in answer.value ? buffersOf(answer.value.answer) : []
}

/** The exchanges of a thread or process that runs one call at a time and waits for replies. Waits are not charged to the guest. */
export function bridgedStreams(host: HostAsker): StreamHost {
  const client: StreamClient = {
    call: (operation, written, ...args) => host.askUncounted(STREAM, operation, written, ...args) as never,
  }
  return { suspends: false, clientOf: () => client }
}

/** Asks the host for a call whose guest is suspended until the answer comes. Waits are not charged to the guest. */
export interface SuspendedAsker {
  /** Bytes change their owner with their whole buffer, in both directions. @throws as {@link HostAsker.ask} does. */
  ask(caller: Caller, operation: string, ...args: readonly unknown[]): Promise<unknown>
}

/** The exchanges of calls whose guests are suspended until a reply comes. */
export function suspendedStreams(host: SuspendedAsker): StreamHost {
  return {
    suspends: true,
    clientOf: (caller) => ({
      call: (operation, written, ...args) => host.ask(caller, STREAM, operation, written, ...args) as never,
    }),
  }
}

/** The main thread's side of {@link bridgedStreams}. */
export const STREAM_OPERATIONS: HostOperations = {
  [STREAM]: ([operation, written, ...args], { caller }) =>
    callStream(operation as StreamOperation, args, caller, written as Uint8Array | undefined),
}

/** HTTP requests sent by the main thread while the worker waits. */
export function bridgedHttp(client: HostAsker): GuestHttp {
  return {
    isAsync: false,
    // Copies: a message carries the whole buffer of its bytes, and here that is the kernel's memory.
    send: (request, body) =>
      client.ask('http', new Uint8Array(request), new Uint8Array(body)) as HttpResponse,
  }
}

/** HTTP requests for which guests are suspended, except while they start. */
export function suspendedHttp(client: HostAsker, host: SuspendedAsker): GuestHttp {
  const { send } = bridgedHttp(client)
  return {
    isAsync: true,
    send: (request, body, caller) =>
      caller
        ? (host.ask(caller, 'http', new Uint8Array(request), new Uint8Array(body)) as Promise<HttpResponse>)
        : send(request, body),
  }
}
