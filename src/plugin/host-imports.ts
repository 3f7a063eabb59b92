import type { Plugin } from './plugin.ts'

/**
 * What the modules of a plug-in import, but for what another of its modules defines. A linked module need not define
 * all that is imported by its name: host functions can have the same namespace.
 */
export function hostImports({
  module,
  linked,
}: Pick<Plugin, 'module' | 'linked'>): WebAssembly.ModuleImportDescriptor[] {
  const defined = new Map(linked.map((each) => [each.name, exportNames(each.module)]))
  return [module, ...linked.map((each) => each.module)]
    .flatMap((each) => WebAssembly.Module.imports(each))
    .filter((wanted) => !defined.get(wanted.module)?.has(wanted.name))
}

function exportNames(module: WebAssembly.Module): ReadonlySet<string> {
  return new Set(WebAssembly.Module.exports(module).map(({ name }) => name))
}
