import { UsageError } from '../../errors/errors.ts'
import { loadFunctions } from '../../guest/host-functions.ts'
import { printable } from '../../observe/log/printable.ts'
import { resolveRoute } from '../../options/resolved-route.ts'
import { compilePlugin } from '../../plugin/plugin.ts'
import { readSource } from '../../plugin/source/source.ts'
import type { Command } from '../command.ts'
import { chooseEngineOf, readGuestConfig } from '../guest-config.ts'
import { renderPage, takeOwnFlags } from '../own-flags.ts'
import { shellWord } from '../render.ts'
import { inspectPlugin } from './inspection.ts'
import { renderInspection } from './render.ts'

/** Flags of this command alone. */
export const INSPECT_FLAGS = {
  json: { kind: 'switch', description: 'Print JSON.' },
  names: { kind: 'switch', description: 'Print only the names of the functions that can be called.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve inspect <plugin.wasm> [flags]',
  about:
    'Shows what a plug-in exports, what it needs and who provides it. Nothing of it\nis run. A path, a URL or a manifest, as for serve.',
  examples: [
    'wasm-serve inspect hello.wasm',
    'wasm-serve inspect hello.wasm --json',
    'wasm-serve inspect -m manifest.json',
    'wasm-serve inspect hello.wasm --memory-max 16MiB',
  ],
  flags: INSPECT_FLAGS,
  more: 'And those of serve that are about the plug-in, such as --link and --functions.',
})

/** Shows what can be told of a plug-in without running it. */
export const inspect: Command = {
  async run(argv, { environment, out }) {
    const { values, rest } = takeOwnFlags(argv, INSPECT_FLAGS)
    if (values.help) return out.write(HELP)
    const config = readGuestConfig(rest, environment, 'inspect')
    const { source: name, route, load } = config
    if (route.function !== undefined)
      throw new UsageError('inspect shows all functions: leave out the name of one')
    const source = await readSource(name, load)
    const plugin = await compilePlugin(source, { ...load, compiles: true })
    const functions = await loadFunctions(route.functions)
    const inspection = inspectPlugin(
      source,
      plugin,
      functions,
      resolveRoute(route, plugin),
      chooseEngineOf(config, plugin, functions),
    )
    if (values.names) return out.write(inspection.functions.map((each) => `${printable(each)}\n`).join(''))

    const missing = inspection.needs.map(({ flag }) => `${flag} ${PLACEHOLDERS[flag] ?? ''}`)
    const command = ['wasm-serve', ...rest.map(shellWord), ...missing].join(' ')
    out.write(
      values.json
        ? `${JSON.stringify({ ...inspection, toolchain: inspection.toolchain ?? null, command }, null, 2)}\n`
        : renderInspection(inspection, command),
    )
  },
}

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  '--functions': 'functions.mjs',
  '--allow-host': 'example.com',
}
