import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { HostFunctionInvalidError } from '../errors/errors.ts'
import type { HostFunctions } from './host-functions.ts'

/**
 * Host functions as a route names them: the object itself, or the path of a module that exports one, as `default` or
 * as `functions`.
 *
 * @throws {@link HostFunctionInvalidError} if the module cannot be loaded or exports none.
 */
export async function loadFunctions(
  functions: string | HostFunctions | undefined,
): Promise<HostFunctions | undefined> {
  if (typeof functions !== 'string') return functions
  const exported = await importModule(functions)
  const found = exported.default ?? exported.functions
  if (typeof found === 'object' && found !== null) return found as HostFunctions
  throw new HostFunctionInvalidError(
    `  ${functions}: it exports no object { namespace: { name: function } } as default or as "functions"`,
  )
}

async function importModule(path: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(resolve(path)).href)
  } catch (error) {
    if (!existsSync(path))
      throw new HostFunctionInvalidError(`  ${path}: there is no such file`, { cause: error })
    throw new HostFunctionInvalidError(`  ${path}: ${(error as Error).message}`, { cause: error })
  }
}
