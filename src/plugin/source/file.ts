import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { PluginUnreadableError } from '../../errors/errors.ts'
import { didYouMean } from '../../platform/text.ts'

/**
 * Reads a file of a plug-in.
 *
 * @throws {@link PluginUnreadableError} if it cannot be read; if there is none, with a similar name that there is.
 */
export async function readSourceFile(path: string): Promise<Uint8Array> {
  try {
    const found = await stat(path)
    // To read a pipe or a device may never end.
    if (found.isFile() || found.isDirectory()) return await readFile(path)
  } catch (error) {
    throw new PluginUnreadableError(path, await whyUnreadable(error, path), { cause: error })
  }
  throw new PluginUnreadableError(path, 'it is not a regular file')
}

async function whyUnreadable(error: unknown, path: string): Promise<string> {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `there is no such file${didYouMean(basename(path), await neighbours(path))}`
    case 'EISDIR':
      return 'it is a directory; name a .wasm file or a manifest in it'
    case 'EACCES':
    case 'EPERM':
      return 'no permission to read it'
    default:
      return (error as Error).message
  }
}

/** The plug-ins in the folder where one was looked for. */
async function neighbours(path: string): Promise<string[]> {
  const names = await readdir(dirname(path)).catch(() => [])
  return names.filter((name) => /\.(?:wasm|json)$/.test(name))
}
