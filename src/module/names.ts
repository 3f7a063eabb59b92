/*
 * Names by which modules and the runtime find each other. They are apart from the rewriters, because threads that run guests rewrite nothing.
 */

/** The namespace from which guests import the functions of Extism. */
export const EXTISM_NAMESPACE = 'extism:host/env'

/** No export of a plug-in with this prefix is visible. */
export const ADDED_PREFIX = 'wasm-serve:'

/** Exports of a module whose guests can be interrupted. */
export const CHECK_EXPORT = {
  /** A table whose only entry is the function that checks. */
  table: `${ADDED_PREFIX}check`,
  /** The global in which entries of functions and bulk instructions count. Where it is 0 before a call, equal calls check at the same places. */
  counter: `${ADDED_PREFIX}counter`,
  /** The module's start function. It has another one, which does nothing: the host calls it when the table is filled. */
  start: `${ADDED_PREFIX}start`,
} as const

/** Exports of a resettable module. */
export const RESET_EXPORT = {
  memory: `${ADDED_PREFIX}memory`,
  /** The lowest written address; addresses from `untrackedFrom` on are not tracked. */
  lowest: `${ADDED_PREFIX}lowest`,
  global: (index: number) => `${ADDED_PREFIX}global ${index}`,
} as const

/** The namespace of the additional imports of a merged module: the guest's memories, named `0`, `1`, ..., and the kernel's. */
export const MERGED_MEMORIES = `${ADDED_PREFIX}memory`

/** The name of the kernel's memory among them. */
export const KERNEL_MEMORY = 'kernel'

/** The export that returns the functions of a part, in a module with few exports. */
export const giverName = (part: number) => `${ADDED_PREFIX}functions ${part}`

/** Functions for each of them: V8 compiles it on the first call, which takes 0.2 ms. */
export const PART = 256
