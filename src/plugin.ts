import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { PluginInvalidError, PluginUnreadableError } from './errors.ts'
import { whyNotAModule } from './file-kind.ts'
import { capMemory } from './memory-cap.ts'
import { exportedFunctions, type FunctionExport } from './module.ts'
import { didYouMean } from './nearest.ts'

/** A plug-in that was read and compiled; instances are opened from it. */
export interface Plugin {
  /** For people: the file's name, or the start of the digest. */
  readonly name: string
  /** SHA-256 of the bytes, in hex. */
  readonly digest: string
  readonly module: WebAssembly.Module
  readonly functions: readonly FunctionExport[]
}

/**
 * Reads, checks and compiles a plug-in. Equal bytes are compiled once.
 *
 * @param source - Path of a `.wasm` file, or the bytes themselves.
 * @param memoryMax - Most memory of an instance, in pages of 64 KiB.
 * @throws {@link PluginUnreadableError} if there is no such file, or it cannot be read.
 * @throws {@link PluginInvalidError} if the bytes are not a WebAssembly core module; the message says what they are.
 */
export async function loadPlugin(source: string | Uint8Array, memoryMax = MAX_PAGES): Promise<Plugin> {
  const bytes = typeof source === 'string' ? await read(source) : source
  const digest = createHash('sha256').update(bytes).digest('hex')
  const name = typeof source === 'string' ? basename(source) : `sha256:${digest.slice(0, 12)}`

  const key = `${digest}:${memoryMax}`
  const module = compiled.get(key)?.deref() ?? (await compile(bytes, memoryMax, name))
  compiled.set(key, new WeakRef(module))
  return { name, digest, module, functions: exportedFunctions(bytes) }
}

/** What WebAssembly allows: 4 GiB. */
const MAX_PAGES = 65_536

/** Compiled modules by digest and limit, for as long as somebody uses them. */
const compiled = new Map<string, WeakRef<WebAssembly.Module>>()

async function read(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new PluginUnreadableError(path, await whyUnreadable(error, path), { cause: error })
  }
}

async function whyUnreadable(error: unknown, path: string): Promise<string> {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `there is no such file${didYouMean(basename(path), await neighbours(path))}`
    case 'EISDIR':
      return 'it is a directory; name a .wasm file in it'
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
  return names.filter((name) => name.endsWith('.wasm'))
}

async function compile(bytes: Uint8Array, memoryMax: number, name: string): Promise<WebAssembly.Module> {
  const notAModule = whyNotAModule(bytes)
  if (notAModule) throw new PluginInvalidError(name, notAModule)
  const capped = capMemory(bytes, memoryMax, name)
  try {
    return await WebAssembly.compile(capped as Uint8Array<ArrayBuffer>)
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '')
    throw new PluginInvalidError(name, `it is not a valid module: ${reason}`, { cause: error })
  }
}
