import { restoreError } from '../errors/failure.ts'
import { type GivenMap, originAt, renderOrigin } from './given.ts'

/**
 * A failure that says at which line of the config file a route asks for what failed. Told of flags and variables, it is
 * left as it is: its message names them, or the plug-in.
 *
 * @param options - Of the route; the first that was given is to blame.
 */
export function placed(error: unknown, route: GivenMap, ...options: readonly string[]): unknown {
  const option = options.find((each) => route.entries.has(each))
  const origin = option === undefined ? undefined : originAt(route, [option])
  if (origin?.kind !== 'file' || !(error instanceof Error && 'code' in error)) return error
  // Another one: routes of the same plug-in have the same failure.
  return restoreError(String(error.code), `${renderOrigin(origin)}: ${error.message}`, error) ?? error
}
