import type { KvClient, KvOperation } from '../../guest/store/kv.ts'
import type { Vars } from '../../guest/vars.ts'
import type { GuestHttp, HttpResponse } from '../../runtime/kernel-http.ts'
import type { HostOperations } from './host-bridge.ts'
import type { HostAsker } from './host-client.ts'

/** The store of the main thread, as a worker sees it: the worker waits for it. */
export function bridgedKv(client: HostAsker): KvClient {
  return {
    sync: 'all',
    // What is read from the guest is a copy with a buffer of its own, so that no message carries more than it.
    call: (operation, ...args) => client.ask('kv', operation, ...args) as never,
  }
}

/** The main thread's answers. What was begun there ends there, whatever becomes of the worker. */
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

/** The main thread's answers. */
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
