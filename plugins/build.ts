import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type ExamplePlugin, plugins, scriptEngine, wasmPath } from './plugins.ts'
import { build, compare, rebuild } from './rebuild.ts'
import { findToolchain, type Toolchain } from './toolchains.ts'

/*
 * npm run plugins -- [--check] [folder ...]   builds all plug-ins, or these, as far as their toolchains are there
 * npm run plugins -- --table                  measures those that are built, and writes the README's tables
 *
 * --check compares with what is committed, and changes nothing. It ends with 1 if a build failed, or made other bytes
 * than are committed though its toolchain is the one that made those.
 */

const all = [...plugins, scriptEngine]
const { values: flags, positionals: folders } = parseArgs({
  options: { check: { type: 'boolean', default: false }, table: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const unknown = folders.filter((name) => !all.some(({ folder }) => folder === name))
if (unknown.length > 0) {
  console.error(
    `There is no plug-in ${unknown.join(', ')}. There are: ${all.map((p) => p.folder).join(', ')}`,
  )
  process.exitCode = 2
} else if (flags.table) {
  const { writeTable } = await import('./table.ts') // it needs what npm run build makes
  await writeTable()
} else {
  await buildAll(all.filter(({ folder }) => folders.length === 0 || folders.includes(folder)))
}

async function buildAll(wanted: readonly ExamplePlugin[]): Promise<void> {
  const missing: string[] = []
  for (const toolchain of new Set(wanted.map((plugin) => plugin.toolchain))) {
    const theirs = wanted.filter((plugin) => plugin.toolchain === toolchain)
    const found = await findToolchain(toolchain)
    if (found === undefined) missing.push(whatIsMissing(toolchain, theirs))
    else for (const plugin of theirs) await buildOne(plugin, found)
  }
  for (const line of missing) console.log(line) // last, to be seen
}

async function buildOne(plugin: ExamplePlugin, found: string): Promise<void> {
  const { pinned } = plugin.toolchain
  const start = performance.now()
  try {
    const bytes = flags.check ? await rebuild(plugin) : await build(plugin)
    const result = flags.check ? compare(plugin, bytes, found) : 'built'
    if (result === 'not as committed') process.exitCode = 1
    const seconds = ((performance.now() - start) / 1_000).toFixed(1)
    const version = found === pinned ? found : `${found}, pinned: ${pinned}`
    console.log(`${plugin.folder}: ${result}, ${bytes.length} bytes, ${seconds} s (${version})`)
  } catch (error) {
    process.exitCode = 1
    console.log(`${plugin.folder}: ${error instanceof Error ? error.message : error}`)
  }
}

function whatIsMissing({ name, get }: Toolchain, plugins: readonly ExamplePlugin[]): string {
  const folders = plugins.map((plugin) =>
    existsSync(wasmPath(plugin))
      ? `${plugin.folder} (the file that is there stays)`
      : `${plugin.folder} (no file)`,
  )
  return `${name} is missing, for ${folders.join(', ')}. Get it: ${get}`
}
