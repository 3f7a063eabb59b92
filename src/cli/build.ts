import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { OutputUnwritableError, UsageError } from '../errors/errors.ts'
import { problemWithFile } from '../module/module.ts'
import { fileProblem } from '../platform/system-errors.ts'
import { printable } from '../platform/text.ts'
import { readSource } from '../plugin/source/source.ts'
import { isScript } from '../script/script.ts'
import { type Command, renderPage, takeOwnFlags } from './command.ts'

/** Flags of this command only. */
export const BUILD_FLAGS = {
  output: {
    kind: 'text',
    short: 'o',
    placeholder: 'path',
    description: 'Output file. Default: the name of the script with .wasm, in the working folder.',
  },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve build <script> [flags]',
  about:
    'Builds an Extism plug-in from a JavaScript or TypeScript file, for any Extism\nhost. For other languages, see wasm-serve new.',
  examples: ['wasm-serve build hello.ts', 'wasm-serve build src/hello.js -o dist/hello.wasm'],
  flags: BUILD_FLAGS,
  more: 'esbuild bundles imports, if it is installed.',
})

/** Makes a plug-in of a script. */
export const buildCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, BUILD_FLAGS)
    if (values.help) return host.out.write(HELP)
    const flag = rest.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`${flag}: not supported by build, which does not serve`)
    const [path, tooMany] = rest
    if (path === undefined) throw new UsageError('build: name a script, such as hello.ts')
    if (tooMany !== undefined) throw new UsageError(`build: unexpected "${tooMany}"; -o names the plug-in`)
    if (!isScript(path))
      throw new UsageError(
        `build: ${path} is neither JavaScript nor TypeScript: wasm-serve new makes projects of other languages`,
      )
    const output = values.output ?? `${basename(path, extname(path))}.wasm`
    await refuseOther(output)
    const { modules } = await readSource(path)
    await replaceFile(output, modules[0]?.bytes ?? new Uint8Array())
    host.out.write(`${printable(output)}\n`)
  },
}

/** A file that is no plug-in is not replaced: it may be the source. */
async function refuseOther(path: string): Promise<void> {
  const found = await readFile(path).catch(() => undefined)
  if (found && found.length > 0 && problemWithFile(found) !== undefined)
    throw new UsageError(`build: ${path} is not a plug-in, and would be lost: name another file with -o`)
}

/** Readers see the old file or the new one. */
async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(dirname(resolve(path)), `.${basename(path)}.${process.pid}.tmp`)
  try {
    await writeFile(temporary, bytes)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw new OutputUnwritableError(path, fileProblem(error), { cause: error })
  }
}
