import type { ConfigurationSource } from './configuration.ts'
import type { Configuration } from './desired-state.ts'
import type { Edits } from './edits.ts'
import type { EditStore } from './state-folder.ts'

/*
 * A state that another process has read, as the source of a configuration and the store of its edits: no file is read here.
 */

/**
 * @param read - Returns the configuration, also for a reload.
 * @param sourceOptions - Default: who has read it has verified the plug-ins.
 */
export function receivedConfiguration(
  read: () => Configuration,
  sourceOptions: ConfigurationSource['sourceOptions'] = () => ({}),
): ConfigurationSource {
  return {
    listsProblems: false,
    sourceOptions,
    async read({ plugins, compiles }) {
      const configuration = read()
      plugins.expected = configuration.routes.length
      plugins.compiles = compiles?.(configuration.server) ?? plugins.compiles
      return configuration
    },
  }
}

/**
 * @param module - Fetches the bytes of a module by its digest.
 * @param write - Called before a change goes live. Default: who has read the state has stored it.
 */
export function receivedEdits(
  edits: Edits,
  module: (digest: string) => Promise<Uint8Array>,
  write: EditStore['write'] = async () => undefined,
): EditStore {
  return {
    place: 'of the control side',
    modules: { get: module, put: async () => undefined, keep: async () => undefined },
    read: async () => edits,
    write,
  }
}
