import type { RouteOptions } from '../options/options.ts'
import { routeSchema } from '../options/options-schema.ts'

/**
 * Options of a route that an edit may set: by the admin API, or by a state folder, which keeps such edits. What is not
 * listed is for the configuration: it leads to code or files of this machine, or lifts what protects the process from
 * guests. So a new option is refused until it was decided that it does neither. `plugin` is the name of one that there
 * is, never a path.
 */
// biome-ignore format: a list that is read, not edited line by line
export const EDITABLE_OPTIONS: readonly Exclude<keyof RouteOptions, 'plugin'>[] = [
  'method', 'url', 'host', 'function', 'contract', 'config', 'wasi', 'env', 'allowedHosts',
  'bodyLimit', 'outputLimit', 'contentType', 'headers', 'errorStatus', 'description',
  'runtime', 'isolation', 'recycle', 'recycleMemory', 'memoryMax', 'blockLimit', 'varMax',
  'httpResponseMax', 'httpErrors', 'engine', 'workers', 'spareWorkers', 'timeoutMs', 'idempotent',
  'vars', 'startTimeoutMs', 'maxQueue', 'maxQueueBytes', 'maxWaitMs', 'kv', 'logRate', 'smoke', 'timing',
]

const EDITABLE: ReadonlySet<string> = new Set([...EDITABLE_OPTIONS, 'plugin'])

/**
 * The first option that an edit may not set; undefined if there is none. Names that are no options are left to the check
 * of the options, which finds what they were meant to be.
 */
export function forbiddenOption(options: object): string | undefined {
  return Object.entries(options).find(
    ([name, value]) =>
      value !== undefined && !EDITABLE.has(name) && Object.hasOwn(routeSchema.properties, name),
  )?.[0]
}
