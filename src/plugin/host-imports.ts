import type { ImportedItem } from '../module/module-view.ts'
import { EXTISM_NAMESPACE } from '../module/names.ts'

/** The namespace of Extism's host functions. */
export const EXTISM_ENV = EXTISM_NAMESPACE

/** The namespace of WASI preview 1. */
export const WASI = 'wasi_snapshot_preview1'

/** Whether only the host may provide functions in this namespace. */
export function isHostNamespace(namespace: string): boolean {
  return namespace === EXTISM_ENV || namespace === WASI
}

interface Importing {
  readonly imports: readonly ImportedItem[]
}

interface LinkedImports extends Importing {
  readonly name: string
  readonly exports: readonly { readonly name: string }[]
}

/**
 * The imports of a plug-in's modules, except those that another of its modules provides. A linked module need not provide
 * everything that is imported by its name: host functions may have the same namespace.
 */
export function hostImports({
  imports,
  linked,
}: Importing & { readonly linked: readonly LinkedImports[] }): readonly ImportedItem[] {
  if (linked.length === 0) return imports
  const defined = new Map(
    linked.map(({ name, exports }) => [name, new Set(exports.map((each) => each.name))]),
  )
  return [imports, ...linked.map((each) => each.imports)]
    .flat()
    .filter((wanted) => !defined.get(wanted.module)?.has(wanted.name))
}
