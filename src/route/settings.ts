import { statSync } from 'node:fs'
import { AllowedPathError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import { START } from '../module/entry-points.ts'
import type { Log } from '../observe/log/guest-log.ts'
import type { ResolvedRoute } from '../options/resolved-route.ts'
import type { AllowedPath } from '../plugin/source/manifest.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'

/**
 * What a route's instances may use.
 *
 * @throws {@link AllowedPathError}
 */
export function instanceSettings(
  route: ResolvedRoute,
  exportName: string,
  functions: HostFunctions | undefined,
  log: Log,
): InstanceSettings {
  const { config, wasi, env, allowedPaths, outputLimit, blockLimit, blockPages, varMax } = route
  return {
    config,
    wasi: wasi ? { env, allowedPaths: allowedPaths.map(checkFolder) } : undefined,
    outputLimit,
    blockLimit,
    blockPages,
    functions,
    varMax,
    command: exportName === START,
    httpErrors: route.httpErrors,
    log,
    logRate: route.logRate,
  }
}

function checkFolder(path: AllowedPath): AllowedPath {
  const found = statSync(path.host, { throwIfNoEntry: false })
  if (found?.isDirectory()) return path
  throw new AllowedPathError(path.host, found ? 'it is not a folder' : 'there is no such folder')
}
