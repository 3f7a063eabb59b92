/*
 * Names by which modules and the runtime find each other. They are apart from the rewriters, because threads that run guests rewrite nothing.
 */

/** The namespace from which guests import the functions of Extism. */
export const EXTISM_NAMESPACE = 'extism:host/env'

/** Functions of the user. */
export const USER_NAMESPACE = 'extism:host/user'

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
  /** `(address, length)`: marks the blocks of that range. */
  markWritten: `${ADDED_PREFIX}mark written`,
  /** `(from, end)`: returns the number of the first marked block in that range, or `end`. */
  findWritten: `${ADDED_PREFIX}find written`,
  /** `(from, end)`: clears the marks up to the first unmarked block, and returns its number, or `end`. */
  clearWritten: `${ADDED_PREFIX}clear written`,
} as const

/** Binary logarithm of the size of a block that a resettable module marks when it writes there. */
export const WRITTEN_BLOCK_BITS = 12

/** Bytes before and behind a marked block that are restored, too: writes near one that has marked its block mark none. */
export const RESTORED_AROUND = 256

/**
 * Maximum size of a memory that is kept, in bytes. A new memory takes more time even if the guest touches little of it, but a kept
 * one occupies space while no call runs.
 */
export const MAX_KEPT_BYTES = 33_554_432

/** The namespace of the additional imports of a merged module: the guest's memories, named `0`, `1`, ..., and the kernel's. */
export const MERGED_MEMORIES = `${ADDED_PREFIX}memory`

/** The name of the kernel's memory among them. */
export const KERNEL_MEMORY = 'kernel'

/** The export that returns the functions of a part, in a module with few exports. */
export const giverName = (part: number) => `${ADDED_PREFIX}functions ${part}`

/** Functions for each of them: V8 compiles it on the first call, which takes 0.2 ms. */
export const PART = 256
