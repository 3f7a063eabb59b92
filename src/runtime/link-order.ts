/** What a module imports from another. */
export interface Link<Module> {
  readonly from: Module
  /** Whether it must be there before; a function can be looked up when it is called. */
  readonly isNeededFirst: boolean
}

/** Modules that import from each other in a circle, directly or not; nearly always a lone one. */
export interface ModuleGroup<Module> {
  /** Each comes after those that it needs first, if that can be. */
  readonly linkOrder: readonly Module[]
  /** The one that the others were found by, such as the main module, comes last. */
  readonly startOrder: readonly Module[]
}

/**
 * Orders modules so that each group comes after those that it imports from.
 *
 * @param main - In the last group; what it does not import from, directly or not, is left out.
 */
export function orderModules<Module>(
  main: Module,
  linksOf: (module: Module) => readonly Link<Module>[],
): ModuleGroup<Module>[] {
  const finished: Module[] = []
  walk(main, linksOf, new Set(), finished)
  const reached = new Map(finished.map((module) => [module, reachedFrom(module, linksOf)]))
  const isCircle = (a: Module, b: Module) =>
    reached.get(a)?.has(b) === true && reached.get(b)?.has(a) === true

  return finished.flatMap((module) => {
    const group = finished.filter((other) => other === module || isCircle(module, other))
    // When the last of a group is finished, so is all that any of the group imports from.
    return group.at(-1) === module ? [{ linkOrder: orderGroup(group, linksOf), startOrder: group }] : []
  })
}

/** Lists modules after those that they import from, where there is no circle. */
function walk<Module>(
  module: Module,
  linksOf: (module: Module) => readonly Link<Module>[],
  seen: Set<Module>,
  finished: Module[],
): void {
  seen.add(module)
  for (const { from } of linksOf(module)) if (!seen.has(from)) walk(from, linksOf, seen, finished)
  finished.push(module)
}

/** What a module imports from, directly or not; itself only if it is part of a circle. */
function reachedFrom<Module>(
  module: Module,
  linksOf: (module: Module) => readonly Link<Module>[],
): Set<Module> {
  const reached = new Set<Module>()
  for (const { from } of linksOf(module)) if (!reached.has(from)) walk(from, linksOf, reached, [])
  return reached
}

function orderGroup<Module>(
  group: readonly Module[],
  linksOf: (module: Module) => readonly Link<Module>[],
): Module[] {
  const left = [...group]
  const ordered: Module[] = []
  while (left.length > 0) {
    const waits = (module: Module) =>
      linksOf(module).some(({ from, isNeededFirst }) => isNeededFirst && left.includes(from))
    const next = left.findIndex((module) => !waits(module))
    ordered.push(...left.splice(Math.max(next, 0), 1))
  }
  return ordered
}
