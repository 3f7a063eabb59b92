import type { ConfigEntry, ConfigMap } from '../../options/config-node.ts'
import { RESTART_OPTIONS } from '../../options/facts.ts'
import type { Configuration } from '../desired-state.ts'

/**
 * A configuration with the options of a start: those that a reload cannot change have the values of the start, so that
 * a process that is replaced does not differ from the others. The same configuration has the same result.
 */
export class StartOptions {
  #server: ConfigMap | undefined
  #made = new WeakMap<Configuration, Configuration>()

  /** The first configuration is that of the start. */
  apply(configuration: Configuration): Configuration {
    this.#server ??= configuration.server
    const made = this.#made.get(configuration) ?? withOptions(configuration, this.#server)
    this.#made.set(configuration, made)
    return made
  }

  /** From now on the options are those of this configuration. @returns undoes it. */
  renew(configuration: Configuration): () => void {
    const [server, made] = [this.#server, this.#made]
    this.#server = configuration.server
    this.#made = new WeakMap()
    return () => {
      this.#server = server
      this.#made = made
    }
  }
}

function withOptions(configuration: Configuration, start: ConfigMap): Configuration {
  const { server } = configuration
  if (server === start) return configuration
  const entries = new Map<string, ConfigEntry>(server.entries)
  for (const name of RESTART_OPTIONS) {
    const entry = start.entries.get(name)
    if (entry) entries.set(name, entry)
    else entries.delete(name)
  }
  return { ...configuration, server: { ...server, entries } }
}
