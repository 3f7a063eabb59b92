import type { ImportedItem } from './module.ts'
import type { Plugin } from './plugin.ts'

/**
 * What the modules of a plug-in import, but for what another of its modules defines. A linked module need not define
 * all that is imported by its name: host functions can have the same namespace.
 */
export function hostImports({ imports, linked }: Pick<Plugin, 'imports' | 'linked'>): ImportedItem[] {
  const defined = new Map(
    linked.map(({ name, exports }) => [name, new Set(exports.map((each) => each.name))]),
  )
  return [imports, ...linked.map((each) => each.imports)]
    .flat()
    .filter((wanted) => !defined.get(wanted.module)?.has(wanted.name))
}
