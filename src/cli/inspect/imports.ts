import { findHostFunction, type HostFunctions } from '../../guest/host-functions.ts'
import { isHostNamespace } from '../../plugin/host-imports.ts'
import type { ExportedItem } from '../../plugin/module.ts'
import type { Plugin } from '../../plugin/plugin.ts'
import { isCommand } from '../../plugin/start.ts'
import { hostPartOf, isOfOldPdk } from '../../runtime/imports.ts'
import { MAIN } from '../../runtime/link-plan.ts'

/** What a module of a plug-in needs from outside. */
export interface NeededImport {
  /** The module that needs it: `main`, or the name of a linked one. */
  readonly module: string
  readonly namespace: string
  readonly name: string
  readonly kind: string
  readonly metBy: ImportProvider
  /** Which of the modules has an export of that name. */
  readonly from?: string
}

/**
 * Who meets an import: the kernel (Extism's memory), the host (Extism's other functions), WASI, a module of the
 * plug-in, a function of the user, or nobody.
 */
export type ImportProvider = 'kernel' | 'host' | 'wasi' | 'module' | 'functions' | 'nobody'

/** Lists the imports of all modules of a plug-in, also of those that nothing meets. */
export function importsOf(plugin: Plugin, functions: HostFunctions = {}): NeededImport[] {
  const modules = new Map(
    [plugin, ...plugin.linked].map((each) => [each === plugin ? MAIN : each.name, each]),
  )
  return [...modules].flatMap(([module, { imports }]) =>
    imports.map(({ module: namespace, name, kind }) => {
      const exports = modules.get(namespace)?.exports ?? []
      const exported = exports.find((each) => each.name === name)
      if (exported) {
        const isOffered = kind === 'function' || namespace === MAIN || !isCommand(functionsOf(exports))
        const metBy = exported.kind === kind && isOffered ? 'module' : 'nobody'
        return { module, namespace, name, kind, metBy, from: namespace } as const
      }
      return { module, namespace, name, kind, metBy: inHost(namespace, name, kind, functions) }
    }),
  )
}

function functionsOf(exports: readonly ExportedItem[]): Set<string> {
  return new Set(exports.filter(({ kind }) => kind === 'function').map(({ name }) => name))
}

/** Whether functions of the user could meet an import: those of the host cannot be added to. */
export function couldBeFunction(needed: NeededImport): boolean {
  const { metBy, namespace, kind, from } = needed
  const isFree = metBy === 'nobody' && kind === 'function' && from === undefined
  return isFree && !isHostNamespace(namespace) && !needsNewPdk(needed)
}

/** Whether an import is met by nothing, because its plug-in was built with an Extism PDK before 1.0. */
export function needsNewPdk({ metBy, namespace, name }: NeededImport): boolean {
  return metBy === 'nobody' && isOfOldPdk(namespace, name)
}

function inHost(namespace: string, name: string, kind: string, functions: HostFunctions): ImportProvider {
  if (kind !== 'function') return 'nobody'
  return (
    hostPartOf(namespace, name) ?? (findHostFunction(functions, namespace, name) ? 'functions' : 'nobody')
  )
}
