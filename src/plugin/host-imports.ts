import type { Plugin } from './plugin.ts'

/** What the modules of a plug-in import, but for what they import from its linked modules. */
export function hostImports({
  module,
  linked,
}: Pick<Plugin, 'module' | 'linked'>): WebAssembly.ModuleImportDescriptor[] {
  const names = new Set(linked.map(({ name }) => name))
  return [module, ...linked.map((each) => each.module)]
    .flatMap((each) => WebAssembly.Module.imports(each))
    .filter((wanted) => !names.has(wanted.module))
}
