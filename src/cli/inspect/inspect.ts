import { UsageError } from '../../errors/errors.ts'
import { loadFunctions } from '../../guest/host-functions.ts'
import { describeTool, type ToolDescription } from '../../mcp/description.ts'
import { START } from '../../module/entry-points.ts'
import { type ResolvedRoute, resolveRoute } from '../../options/resolved-route.ts'
import { printable, shellWord } from '../../platform/text.ts'
import { compilePlugin, type Plugin } from '../../plugin/plugin.ts'
import { renderSigner } from '../../plugin/source/origin.ts'
import { readSource } from '../../plugin/source/source.ts'
import type { Verified } from '../../plugin/trust/verify.ts'
import { readXtpSchema, type XtpSchema } from '../../route/openapi/xtp-schema.ts'
import { type Command, renderPage, takeOwnFlags } from '../command.ts'
import { chooseEngineOf, readGuestConfig } from '../guest-config.ts'
import { type Inspection, inspectPlugin, type ModuleKind, type NeededImport } from './inspection.ts'

/** Flags of this command only. */
export const INSPECT_FLAGS = {
  json: { kind: 'switch', description: 'Print JSON.' },
  names: { kind: 'switch', description: 'Print only the names of the callable functions.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve inspect <plugin.wasm> [flags]',
  about:
    'Shows the exports of a plug-in, its imports and their providers, without running\nit. The plug-in is a path, a URL or a manifest, as for serve.',
  examples: [
    'wasm-serve inspect hello.wasm',
    'wasm-serve inspect hello.wasm --json',
    'wasm-serve inspect -m manifest.json',
    'wasm-serve inspect hello.wasm --memory-max 16MiB',
  ],
  flags: INSPECT_FLAGS,
  more: 'Flags of serve about the plug-in work too, such as --link and --functions.',
})

/** Describes a plug-in without running it. */
export const inspect: Command = {
  async run(argv, host) {
    const { out } = host
    const { values, rest } = takeOwnFlags(argv, INSPECT_FLAGS)
    if (values.help) return out.write(HELP)
    const config = readGuestConfig(rest, host, 'inspect')
    const { source: name, route, load } = config
    if (route.function !== undefined)
      throw new UsageError('inspect shows all functions: remove the function name')
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
    const tools = toolsOf(
      plugin,
      resolveRoute(route, plugin),
      inspection.functions,
      await readXtpSchema(name, source.companions?.xtpSchema),
    )
    if (values.names) return out.write(inspection.functions.map((each) => `${printable(each)}\n`).join(''))

    const missing = inspection.needs.map(({ flag }) => `${flag} ${INSPECT_PLACEHOLDERS[flag] ?? ''}`)
    const command = ['wasm-serve', ...rest.map(shellWord), ...missing].join(' ')
    out.write(
      values.json
        ? `${JSON.stringify({ ...inspection, toolchain: inspection.toolchain ?? null, tools, command }, null, 2)}\n`
        : renderInspection(inspection, tools, command),
    )
  },
}

/** A function as a tool. */
type ShownTool = Pick<ToolDescription, 'name' | 'description' | 'inputSchema' | 'outputSchema'>

/** The export with which a plug-in describes its tools when it runs. */
const DESCRIBING = 'describe'

/** The functions as tools. A plug-in made for hyper-mcp describes its tools when it runs. */
function toolsOf(
  { name: pluginName }: Plugin,
  options: ResolvedRoute,
  functions: readonly string[],
  xtp: XtpSchema | undefined,
): ShownTool[] {
  if (functions.includes('list_tools') && functions.includes('call_tool')) return []
  const tools = functions.length > 1 ? functions.filter((name) => name !== DESCRIBING) : functions
  return tools.map((functionName) => {
    const url = functions.length === 1 ? '/' : `/${functionName}`
    const described = describeTool({ options: { ...options, url }, functionName, pluginName }, xtp)
    const { name, description, inputSchema, outputSchema } = described
    return { name, description, inputSchema, outputSchema }
  })
}

const INSPECT_PLACEHOLDERS: Readonly<Record<string, string>> = {
  '--functions': 'functions.mjs',
  '--allow-host': 'example.com',
}

/** Renders an inspection for a terminal. Names come from the guest and are escaped. */
function renderInspection(inspection: Inspection, tools: readonly ShownTool[], command: string): string {
  const { name, toolchain, kind, wasi, allowedHosts, functions, notCallable, needs, problems, warnings } =
    inspection
  const lines = [
    ...inspection.modules.flatMap((module) => [
      `${module.name === 'main' ? name : `module "${module.name}"`}: ${module.bytes} bytes, sha256 ${module.sha256}`,
      ...(module.origin === undefined ? [] : [`  from: ${module.origin}`]),
      ...(module.signed ? renderSigned(module.signed) : []),
      ...(module.memories.length === 0 ? ['  memory: none defined'] : module.memories.map(renderMemory)),
      ...(module.kernel ? [`  kernel: ${renderMerge(module.kernel)}`] : []),
      ...(module.isInterruptible === undefined
        ? []
        : [`  deadlines: ${DEADLINES[`${module.isInterruptible}`]}`]),
    ]),
    `made with: ${toolchain ? `${toolchain.name} (${toolchain.because})` : 'unknown'}`,
    `starts as: ${SHOWN_KINDS[kind]}`,
    `runs: ${renderEngineChoice(inspection.engine)}`,
    `WASI: ${wasi ? 'needed, and on unless --no-wasi' : 'not needed'}`,
    ...(allowedHosts ? [`HTTP requests: ${allowedHosts.join(', ') || 'refused'}`] : []),
    '',
    'Functions:',
    ...(functions.length === 0 ? ['  none'] : functions.map(renderFunction)),
    ...notCallable.map((each) => `  not callable: ${each.name}, ${each.reason}`),
    '',
    ...renderTools(tools, functions),
    'Imports:',
    ...renderImports(inspection.imports),
    ...(needs.length + problems.length + warnings.length > 0 ? ['', 'To serve it:'] : []),
    ...needs.map(({ flag, why }) => `  add ${flag}: ${why}`),
    ...problems.map((problem) => `  problem: ${problem}`),
    ...warnings.map((warning) => `  note: ${warning}`),
    ...(problems.length > 0 ? [] : ['', `Run it: ${command}`]),
  ]
  return `${lines.map(printable).join('\n')}\n`
}

function renderSigned(signed: Verified): string[] {
  const { predicateTypes } = signed
  const attested = predicateTypes.length === 0 ? [] : [`  attestations: ${predicateTypes.join(', ')}`]
  return [`  signed by: ${renderSigner(signed)}`, ...attested]
}

const SHOWN_KINDS: Readonly<Record<ModuleKind, string>> = {
  command: 'a command: _start runs as the call, each time in a new instance',
  reactor: 'a reactor: _initialize runs when an instance is opened',
  haskell: 'a Haskell program: hs_init runs when an instance is opened',
  constructors: 'a library: __wasm_call_ctors runs when an instance is opened',
  program: 'a program without WASI: _start runs when an instance is opened',
  none: 'a library: nothing runs before the first call',
}

function renderFunction(name: string, _index: number, all: readonly string[]): string {
  if (name !== START) return `  ${name}`
  return `  ${name}: the program, in a new instance for each call${all.length > 1 ? ', if it is named' : ''}`
}

function renderTools(tools: readonly ShownTool[], functions: readonly string[]): string[] {
  if (tools.length === 0) return []
  const isDescribed = tools.length < functions.length
  const note = isDescribed ? ['  What the export describe says of them when it runs takes precedence.'] : []
  return ['As tools for agents (--mcp):', ...tools.map(renderTool), ...note, '']
}

/** The arguments of a tool, and its description. */
function renderTool({ name, description, inputSchema }: ShownTool): string {
  const { properties = {}, required } = inputSchema
  const needed: readonly unknown[] = Array.isArray(required) ? required : []
  const parameters = Object.keys(properties as object).map((each) =>
    needed.includes(each) ? each : `${each}?`,
  )
  return `  ${name}(${parameters.join(', ')}): ${description}`
}

function renderEngineChoice(engine: Inspection['engine']): string {
  if (engine.name === 'inline') return 'on the event loop'
  const { workers, timeoutMs, reason } = engine
  const limit = timeoutMs === undefined ? 'without a deadline' : `for up to ${timeoutMs} ms a call`
  const [one, many] = engine.name === 'subprocess' ? ['a process', 'processes'] : ['a thread', 'threads']
  return `in ${workers === 1 ? one : `${workers} ${many}`}, ${limit} (${reason})`
}

const DEADLINES = {
  true: 'terminate only the guest',
  false: 'terminate the thread or process of the guest, because it does not check for interrupts',
}

function renderMerge(merge: NonNullable<Inspection['modules'][number]['kernel']>): string {
  return merge.isMerged ? 'its memory is merged into the module' : `linked (${merge.reason})`
}

function renderMemory({ initial, max, cap }: Inspection['modules'][number]['memories'][number]): string {
  const wanted = max === undefined ? 'as many as it gets' : `${max} at most`
  return `  memory: ${initial} pages of 64 KiB, wants ${wanted}, may have ${cap} (${mebibytes(cap)} MiB)`
}

function mebibytes(pages: number): number {
  return Math.round((pages * 10) / 16) / 10
}

const PROVIDERS: Readonly<Record<NeededImport['metBy'], string>> = {
  kernel: 'the kernel',
  host: 'the host',
  wasi: 'WASI',
  module: 'a linked module',
  functions: '--functions',
  nobody: 'NOBODY',
}

/** One line for each module, namespace and provider. */
function renderImports(imports: readonly NeededImport[]): string[] {
  const groups = new Map<string, string[]>()
  for (const { module, namespace, name, kind, metBy } of imports) {
    const importer = module === 'main' ? '' : ` (for module "${module}")`
    const head = `  ${namespace}, from ${PROVIDERS[metBy]}${importer}:`
    groups.set(head, [...(groups.get(head) ?? []), kind === 'function' ? name : `${name} (${kind})`])
  }
  return groups.size === 0 ? ['  none'] : [...groups].map(([head, names]) => `${head} ${names.join(' ')}`)
}
