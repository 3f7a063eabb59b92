import type { ExportedItem } from '../module/module-view.ts'
import { giverName, PART } from '../module/names.ts'

/**
 * The exports of an instance of the variant that `makeFewExports` creates, with the interface of the original
 * module. Items other than functions and memories are missing.
 *
 * @param exports - Those of the instance.
 * @param items - The exports of the original module.
 * @returns the exports unchanged for any other module.
 */
export function exportAccessor(
  exports: WebAssembly.Exports,
  items: readonly ExportedItem[],
): WebAssembly.Exports {
  if (!(giverName(0) in exports)) return exports
  // Not a proxy of the exports themselves: their properties cannot be reported differently.
  return new Proxy<WebAssembly.Exports>(Object.assign(Object.create(null), exports), {
    get(target, name) {
      const place = typeof name === 'string' ? exportIndex(items, name) : undefined
      if (place === undefined) return Reflect.get(target, name)
      const give = exports[giverName(Math.floor(place / PART))]
      return typeof give === 'function' ? give(place % PART) : undefined
    },
  })
}

/**
 * The position of a function among all exports of a module. Each instance needs only a few names, so a map of all names
 * would cost more.
 */
function exportIndex(items: readonly ExportedItem[], wanted: string): number | undefined {
  const known = places.get(items) ?? new Map<string, number | undefined>()
  places.set(items, known)
  if (!known.has(wanted)) known.set(wanted, findExport(items, wanted))
  return known.get(wanted)
}

const places = new WeakMap<readonly ExportedItem[], Map<string, number | undefined>>()

function findExport(items: readonly ExportedItem[], wanted: string): number | undefined {
  let next = 0
  for (const item of items) {
    if (item.kind !== 'function') continue
    if (item.name === wanted) return item.place ?? next
    next++
  }
  return undefined
}
