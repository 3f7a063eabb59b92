import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { mountsOf } from '../../deploy/mounts.ts'
import { PluginUnreadableError, ProjectNotMadeError, UsageError } from '../../errors/errors.ts'
import { findConfigFile } from '../../options/config-file.ts'
import { printable } from '../../platform/text.ts'
import { type Command, renderPage, takeOwnFlags } from '../command.ts'
import { buildOf, pluginsOf } from '../dev/project.ts'
import { CONFIG_HEAD } from './project.ts'

/** Flags of this command only. */
export const INIT_FLAGS = {
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const FILE = 'wasm-serve.yaml'

const HELP = renderPage({
  usage: 'wasm-serve init [folder]',
  about: `Writes ${FILE} for the plug-ins and scripts of a folder, and no other\nfile. Default: the working folder. It overwrites nothing.`,
  examples: ['wasm-serve init plugins/', 'wasm-serve init'],
  flags: INIT_FLAGS,
})

/** Writes a config file for what a folder has. */
export const init: Command = {
  async run(argv, { out }) {
    const { values, rest } = takeOwnFlags(argv, INIT_FLAGS)
    if (values.help) return out.write(HELP)
    const flag = rest.find((word) => word.startsWith('-'))
    if (flag !== undefined) throw new UsageError(`init has no flag ${flag}`)
    const [folder = '.', ...more] = rest
    if (more.length > 0) throw new UsageError(`init: one folder at a time, not also ${more.join(' ')}`)
    if (!existsSync(folder) || !statSync(folder).isDirectory())
      throw new UsageError(`init: there is no folder ${folder}; wasm-serve new makes a project`)
    const found = findConfigFile(folder)
    if (found !== undefined) throw new ProjectNotMadeError(folder, `${found} exists`)
    const plugins = await pluginsIn(folder)
    write(folder, render(folder, plugins))
    const names = plugins.map(({ plugin }) => printable(plugin)).join(', ')
    out.write(`Wrote ${printable(join(folder, FILE))}, with ${names}\n\n  npx wasm-serve dev ${folder}\n`)
  },
}

/** @throws UsageError if it has none yet. */
async function pluginsIn(folder: string): ReturnType<typeof findPlugins> {
  try {
    return await findPlugins(folder)
  } catch (error) {
    if (!(error instanceof PluginUnreadableError)) throw error
    const build = buildOf(folder)
    const built = build ? `: build it first, by ${build.words.join(' ')}` : ''
    throw new UsageError(`init: there is no plug-in and no script in ${folder}${built}`)
  }
}

async function findPlugins(folder: string) {
  const { items } = await mountsOf([...pluginsOf(folder)])
  return items
}

function render(folder: string, plugins: readonly { plugin: string; source: string }[]): string {
  const entries = plugins.map(
    ({ plugin, source }) =>
      `  ${JSON.stringify(plugin)}:\n    source: ${JSON.stringify(relative(folder, source))}\n`,
  )
  return `${CONFIG_HEAD}\nplugins: # each is served at its name\n${entries.join('')}`
}

/** @throws ProjectNotMadeError */
function write(folder: string, text: string): void {
  try {
    writeFileSync(join(folder, FILE), text, { flag: 'wx' })
  } catch (error) {
    throw new ProjectNotMadeError(folder, error instanceof Error ? error.message : String(error), {
      cause: error,
    })
  }
}
