import { START } from '../../module/entry-points.ts'
import { printable } from '../../observe/log/printable.ts'
import type { Inspection, ModuleKind, NeededImport } from './inspection.ts'

/** Renders an inspection for a person. Names are the guest's choice, and made harmless. */
export function renderInspection(inspection: Inspection, command: string): string {
  const { name, toolchain, kind, wasi, allowedHosts, functions, notCallable, needs, problems, warnings } =
    inspection
  const lines = [
    ...inspection.modules.flatMap((module) => [
      `${module.name === 'main' ? name : `module "${module.name}"`}: ${module.bytes} bytes, sha256 ${module.sha256}`,
      ...(module.memories.length === 0 ? ['  memory: it defines none'] : module.memories.map(renderMemory)),
    ]),
    `made with: ${toolchain ? `${toolchain.name} (${toolchain.because})` : 'unknown'}`,
    `starts as: ${KINDS[kind]}`,
    `runs: ${renderEngine(inspection.engine)}`,
    `WASI: ${wasi ? 'needed, and on unless --no-wasi' : 'not needed'}`,
    ...(allowedHosts ? [`HTTP requests: ${allowedHosts.join(', ') || 'refused'}`] : []),
    '',
    'Functions:',
    ...(functions.length === 0 ? ['  none'] : functions.map(renderFunction)),
    ...notCallable.map((each) => `  not callable: ${each.name}, ${each.reason}`),
    '',
    'Imports:',
    ...renderImports(inspection.imports),
    ...(needs.length + problems.length + warnings.length > 0 ? ['', 'To serve it:'] : []),
    ...needs.map(({ flag, why }) => `  add ${flag}: ${why}`),
    ...problems.map((problem) => `  it cannot be as it is: ${problem}`),
    ...warnings.map((warning) => `  note: ${warning}`),
    '',
    `Run it: ${command}`,
  ]
  return `${lines.map(printable).join('\n')}\n`
}

const KINDS: Readonly<Record<ModuleKind, string>> = {
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

function renderEngine(engine: Inspection['engine']): string {
  if (engine.name === 'inline') return 'on the event loop'
  const { workers, timeoutMs, reason } = engine
  const limit = timeoutMs === undefined ? 'without a deadline' : `for up to ${timeoutMs} ms a call`
  const [one, many] = engine.name === 'subprocess' ? ['a process', 'processes'] : ['a thread', 'threads']
  return `in ${workers === 1 ? one : `${workers} ${many}`}, ${limit} (${reason})`
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
    const who = module === 'main' ? '' : ` (for module "${module}")`
    const head = `  ${namespace}, from ${PROVIDERS[metBy]}${who}:`
    groups.set(head, [...(groups.get(head) ?? []), kind === 'function' ? name : `${name} (${kind})`])
  }
  return groups.size === 0 ? ['  none'] : [...groups].map(([head, names]) => `${head} ${names.join(' ')}`)
}
