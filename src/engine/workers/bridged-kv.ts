import type { KvClient, KvOperation } from '../../guest/store/kv.ts'
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
