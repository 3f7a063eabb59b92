import { readFileSync, statSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, dirname, extname, relative, resolve } from 'node:path'
import { DigestMismatchError, PluginUnreadableError } from '../../errors/errors.ts'
import { nearest } from '../../platform/text.ts'
import { isScript } from '../../script/script.ts'
import { referenceHint } from '../oci/reference.ts'
import { sha256InSlices } from './digest.ts'

/** The bytes of a module, or where they can be had again. */
export type ModuleBytes = Uint8Array | ModuleFile

interface ModuleFile {
  readonly path: string
  /** SHA-256 of the bytes when they were first read, in hex. */
  readonly digest: string
  /** Makes them of what is in the file, if that is a script. */
  readonly rebuild?: (() => Promise<Uint8Array>) | undefined
}

/** A module that was read. */
interface ReadModule {
  readonly bytes: Uint8Array
  readonly path?: string | undefined
  readonly digest: string
  readonly rebuild?: (() => Promise<Uint8Array>) | undefined
}

/**
 * The bytes of a module. Those of a file are read again.
 *
 * @throws `PluginUnreadableError`; {@link DigestMismatchError} if they have changed.
 */
export async function bytesOf(module: ModuleBytes): Promise<Uint8Array> {
  if (module instanceof Uint8Array) return module
  const { path, digest, rebuild = () => readSourceFile(path, true) } = module
  return checkDigest(await rebuild(), digest, path)
}

/** Only the file of a module that is in one. */
export function leaveInFile({ bytes, path, digest, rebuild }: ReadModule): ModuleBytes {
  return path === undefined ? bytes : { path, digest, rebuild }
}

/** @throws {@link DigestMismatchError} if the bytes do not match the digest. */
export async function checkDigest(
  bytes: Uint8Array,
  digest: string | undefined,
  source: string,
): Promise<Uint8Array> {
  const actual = digest === undefined ? undefined : await sha256InSlices(bytes)
  if (digest !== undefined && actual !== undefined && actual !== digest)
    throw new DigestMismatchError(source, digest, actual)
  return bytes
}

/**
 * Reads a file of a plug-in.
 *
 * @throws {@link PluginUnreadableError} if it cannot be read; for a missing file with a similar existing name.
 */
export async function readSourceFile(path: string, isServing = false): Promise<Uint8Array> {
  try {
    const found = isServing ? await stat(path) : statSync(path)
    // Reading a pipe or a device may never end.
    if (found.isFile() || found.isDirectory())
      return isServing || found.size > SMALL_BYTES ? await readFile(path) : readFileSync(path)
  } catch (error) {
    throw new PluginUnreadableError(path, await readFailureReason(error, path), { cause: error })
  }
  throw new PluginUnreadableError(path, 'it is not a regular file')
}

/** Reading this much synchronously takes 30 us, and asynchronously 100 us. */
const SMALL_BYTES = 262_144

/** Proposes a file of the same folder. Equal endings do not make names similar. */
async function nearFile(path: string): Promise<string> {
  const stem = (name: string) => basename(name, extname(name))
  const files = (await neighbours(path)).filter((name) => name !== basename(path)) // a link to nothing
  const meant = nearest(stem(path), files.map(stem))
  const named = files.filter((name) => stem(name) === meant)
  const file = named.find((name) => extname(name) === extname(path)) ?? named[0]
  return file === undefined ? '' : `; did you mean "${file}"?`
}

async function readFailureReason(error: unknown, path: string): Promise<string> {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `there is no such file${hintOf(path) || (await nearFile(path))}`
    case 'EISDIR':
      return 'it is a directory; name a .wasm file or a manifest in it'
    case 'EACCES':
    case 'EPERM':
      return 'no permission to read it'
    default:
      return (error as Error).message
  }
}

/** A reference of a registry may have been taken for a path, which the folder of a config file precedes. */
function hintOf(path: string): string {
  const names = path.split('/')
  const ends = names.map((_, at) => names.slice(at).join('/')).filter((end) => /[:@]/.test(basename(end)))
  const hints = [relative(resolve(), resolve(path)), ...ends].map(referenceHint)
  return hints.find((hint) => hint !== '') ?? ''
}

/** The plug-ins in the folder of the missing file. */
async function neighbours(path: string): Promise<string[]> {
  const names = await readdir(dirname(path)).catch(() => [])
  return names.filter((name) => /\.(?:wasm|json)$/.test(name) || isScript(name))
}
