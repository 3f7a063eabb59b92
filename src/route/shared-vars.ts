import { openVars, type Vars } from '../guest/vars.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** Variables that all instances and routes of a plug-in share. */
export interface SharedVars {
  /** @param limit - Most bytes; that of the route that asks first counts. */
  open(plugin: Plugin, limit: number): UsedVars
}

/** Variables that a route uses. */
export interface UsedVars {
  readonly vars: Vars
  /** The last that closes them ends them: versions come and go, and theirs are not to stay. */
  close(): void
}

/** Plug-ins are the same if they have the same name and the same bytes. */
export function openSharedVars(): SharedVars {
  const sets = new Map<string, { readonly vars: Vars; users: number }>()
  return {
    open({ name, digest }, limit) {
      const key = `${digest} ${name}`
      const set = sets.get(key) ?? { vars: openVars(limit), users: 0 }
      set.users++
      sets.set(key, set)
      let isOpen = true
      return {
        vars: set.vars,
        close() {
          if (isOpen && --set.users === 0) sets.delete(key)
          isOpen = false
        },
      }
    },
  }
}
