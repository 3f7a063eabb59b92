import type { Vars } from '../../guest/vars.ts'
import type { HostOperations } from './host-bridge.ts'
import type { HostAsker } from './host-client.ts'

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
