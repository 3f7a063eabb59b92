import { PackageMissingError } from '../errors/errors.ts'

/**
 * Loads an optional package.
 *
 * @param purpose - The feature that needs it, for the message.
 * @param install - What to install with npm; default: the package.
 * @throws {@link PackageMissingError} with the line that installs it.
 */
export async function loadPackage<Module>(
  purpose: string,
  name: string,
  load: () => Promise<Module>,
  install = name,
): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    // A missing dependency of the package itself is another mistake.
    if (!isMissing(error, name)) throw error
    throw new PackageMissingError(name, purpose, `npm install ${install}`, { cause: error })
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`package '${name}'`)
}
