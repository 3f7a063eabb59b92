import type { Plugin } from '../plugin/plugin.ts'
import { openVars, type Vars } from '../runtime/kernel-vars.ts'

/** Variables that all instances and routes of a plug-in share. */
export interface SharedVars {
  /** @param limit - Most bytes; that of the route that asks first counts. */
  of(plugin: Plugin, limit: number): Vars
}

/** Plug-ins are the same if they have the same name and the same bytes. */
export function openSharedVars(): SharedVars {
  const sets = new Map<string, Vars>()
  return {
    of({ name, digest }, limit) {
      const key = `${digest} ${name}`
      const vars = sets.get(key) ?? openVars(limit)
      sets.set(key, vars)
      return vars
    },
  }
}
