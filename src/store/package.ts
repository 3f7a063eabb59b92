import { StorePackageMissingError } from '../errors.ts'

/**
 * Loads an optional package.
 *
 * @param store - The store that needs it, as it is named to people.
 * @throws {@link StorePackageMissingError} if it is not installed.
 */
export async function loadPackage<Module>(
  store: string,
  name: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    // Something that the package itself needs and does not find is another mistake.
    if (!isMissing(error, name)) throw error
    throw new StorePackageMissingError(store, name, name, { cause: error })
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`package '${name}'`)
}
