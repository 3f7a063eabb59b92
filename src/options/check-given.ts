import { OptionsError } from '../errors/errors.ts'
import { type GivenMap, mapOf, type Origin, originAt, renderOrigin, toData } from './given.ts'
import { type CheckedServerOptions, checkServerOptions, problemsOf } from './options.ts'

/** The server's options and the routes', as one map. */
export function wholeOf(server: GivenMap, routes: readonly GivenMap[]): GivenMap {
  const list = { kind: 'list', origin: server.origin, items: routes } as const
  return mapOf(
    [...[...server.entries].map(([key, { given }]) => [key, given] as const), ['routes', list]],
    server.origin,
  )
}

/**
 * Checks options that were given in several places, and fills in defaults.
 *
 * @throws {@link OptionsError} listing every problem with the flag, variable or line that it comes from.
 */
export function checkGiven(given: GivenMap): CheckedServerOptions {
  return locate(given, () => checkServerOptions(toData(given)))
}

/** Runs a check; its problems are told with their origins. */
export function locate<Checked>(given: GivenMap, check: () => Checked): Checked {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error
    const lines = problemsOf(error).map(({ option, path, ofKey, message }) => {
      const origin = originAt(given, path, ofKey)
      const what = namesOption(origin) ? '' : `${option.replace(/^routes\[\d+\]\./, '')}: `
      return `  ${renderOrigin(origin)}: ${what}${message}`
    })
    // What is given once for all routes is wrong in each of them.
    throw new OptionsError([...new Set(lines)].join('\n'), { cause: error })
  }
}

/** As a flag and a variable do; a line of a file, a word and the admin API have several. */
function namesOption(origin: Origin): boolean {
  return origin.kind !== 'file' && /^(?:--|[A-Z])/.test(origin.name)
}
