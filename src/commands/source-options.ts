import type { Config, Environment } from '../config/config.ts'
import { type CheckedRouteOptions, checkLoadOptions } from '../config/options.ts'
import type { LoadOptions } from '../plugin/plugin.ts'
import { defaultCacheFolder } from '../source/download-cache.ts'
import { AUTHORIZATION_VARIABLE } from '../source/url.ts'

/**
 * The plug-in that a command is to work on, as the arguments of `loadPlugin`. Commands load it themselves, and not with
 * the routes, because who downloads may have to say who he is.
 *
 * @throws {@link OptionsError} if it is not to be loaded like this.
 */
export function sourceOf(
  { source = '', load: options, route }: Config,
  environment: Environment,
): [source: string, options: LoadOptions] {
  const { cacheFolder, downloadLimit, downloadTimeoutMs } = checkLoadOptions(options)
  const { links = {}, memoryMax, isolation } = route as Partial<CheckedRouteOptions>
  return [
    source,
    {
      links: Object.entries(links).map(([name, link]) => ({ name, source: link })),
      memoryMax,
      isolation,
      authorization: environment[AUTHORIZATION_VARIABLE] || undefined,
      cacheFolder: cacheFolder ?? defaultCacheFolder(environment),
      maxBytes: downloadLimit,
      timeoutMs: downloadTimeoutMs,
    },
  ]
}
