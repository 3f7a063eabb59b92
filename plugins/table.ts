import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { renderNumber } from '../bench/origin.ts'
import { measureHellos, ROUNDS, type Times } from './measure.ts'
import { type ExamplePlugin, isCommitted, plugins, taskOf, wasmPath } from './plugins.ts'

const README = new URL('README.md', import.meta.url)

/**
 * Writes the README's tables, the times measured here and now.
 *
 * @throws Error if a plug-in is not built.
 */
export async function writeTable(): Promise<void> {
  const unbuilt = plugins.filter((plugin) => !existsSync(wasmPath(plugin)))
  if (unbuilt.length > 0) throw new Error(`not built: ${unbuilt.map(({ folder }) => folder).join(', ')}`)
  const hellos = plugins.filter((plugin) => taskOf(plugin) === 'hello')
  const [reference] = hellos
  if (!reference) throw new Error('there is no hello')
  const times = await measureHellos(hellos, reference)

  const tables = {
    hellos: [...renderHellos(hellos, times), '', origin()],
    others: renderOthers(plugins.filter((plugin) => !hellos.includes(plugin))),
  }
  const readme = readFileSync(README, 'utf8')
  writeFileSync(
    README,
    Object.entries(tables).reduce(
      (text, [name, lines]) =>
        text.replace(new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`), `$1${lines.join('\n')}\n$2`),
      readme,
    ),
  )
}

function renderHellos(hellos: readonly ExamplePlugin[], times: Map<ExamplePlugin, Times>): string[] {
  return [
    '| language | built by | joined to Extism by | built with | bytes | opening | call |',
    '| --- | --- | --- | --- | ---: | ---: | ---: |',
    ...hellos.map((hello) => {
      const { opening, call } = times.get(hello) ?? { opening: NaN, call: NaN }
      const ratios = [opening, call].map((ratio) => renderNumber(ratio, 1))
      return row([hello.language, ...builtBy(hello), size(hello), ...ratios])
    }),
  ]
}

function renderOthers(others: readonly ExamplePlugin[]): string[] {
  return [
    '| plug-in | language | built by | joined to Extism by | built with | bytes |',
    '| --- | --- | --- | --- | --- | ---: |',
    ...others.map((plugin) => row([taskOf(plugin), plugin.language, ...builtBy(plugin), size(plugin)])),
  ]
}

function builtBy({ folder, joinedBy, toolchain }: ExamplePlugin): string[] {
  return [`[${folder}/build.sh](${folder}/build.sh)`, joinedBy, toolchain.pinned]
}

/** Of what is not committed, other versions of its toolchain make other sizes. */
function size(plugin: ExamplePlugin): string {
  const bytes = renderNumber(statSync(wasmPath(plugin)).size, 0)
  return isCommitted(plugin) ? bytes : `${bytes} (not committed)`
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

function origin(): string {
  const date = new Date().toISOString().slice(0, 10)
  return `CPU time, as a multiple of that of hello in Rust: medians of ${ROUNDS} rounds on Node ${process.version}, ${date}.`
}
