import { PackageMissingError } from '../errors/errors.ts'

/**
 * Loads a package that only some need.
 *
 * @param purpose - What needs it, for people.
 * @param install - What npm is told to install; default: the package.
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
    // Something that the package itself needs and does not find is another mistake.
    if (!isMissing(error, name)) throw error
    throw new PackageMissingError(name, purpose, `npm install ${install}`, { cause: error })
  }
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error && 'code' in error)) return false
  return error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`package '${name}'`)
}
