import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'
import { ByteReader, concat, leb } from '../module/bytes.ts'
import { dropLastImports, orderImports, withLastImports } from '../module/function-imports.ts'
import { CODE, constant } from '../module/instructions.ts'
import { KERNEL_WASM } from '../module/kernel-wasm.ts'
import { capMemory } from '../module/memory-cap.ts'
import { readModule } from '../module/module.ts'
import { type ImportedItem, type ModuleView, SECTION } from '../module/module-view.ts'
import { appendItems, renderExport, renderItems, withContents } from '../module/module-writer.ts'
import { EXTISM_NAMESPACE, USER_NAMESPACE } from '../module/names.ts'
import { packageFile } from '../platform/packages.ts'
import { callByPlace, renderTypeOf } from './host-functions.ts'
import type { Script, ScriptFacts } from './script.ts'

/*
 * The engine is QuickJS as a started plug-in that waits for its script: see plugins/script-engine. It gets the script as a line of
 * JSON, which describes it, and its text.
 */

/** Exports of plug-ins. */
const MEMORY = 'memory'
const INITIALIZE = '_initialize'

/** Exports of the engine. */
const SPACE = 'script_space'
const START = 'script_start'
const INSPECT = 'script_inspect'
const CALL = 'script_call'
/** Calls a function of the host that the script declares. */
const HOST = 'script_host'

/** Names that a function of a script cannot have. */
const TAKEN: readonly string[] = [MEMORY, INITIALIZE, '_start']

/** Extism's requests. */
const REQUESTS = 'requests'

/** Places for functions of the host that a script declares. */
const DECLARED = 'wasm-serve:script'

/** What scripts can import, which are also the reasons for imports of the engine. The rarest is last. */
const REASONS: readonly string[] = [
  REQUESTS,
  'wasm-serve:http',
  'wasm-serve:websocket',
  'wasm-serve:kv',
  DECLARED,
]

/** Why the engine has an import; undefined: for all scripts. */
function reasonOf({ module, name }: ImportedItem): string | undefined {
  if (module === EXTISM_NAMESPACE) return name.startsWith('http_') ? REQUESTS : undefined
  if (module === 'wasm-serve:http' && name.startsWith('ws_')) return 'wasm-serve:websocket'
  return REASONS.includes(module) ? module : undefined
}

/** The order of the engine's imports. */
export function rankOfImport(item: ImportedItem): number {
  return REASONS.indexOf(reasonOf(item) ?? '')
}

/** The engine without the imports that a script does not need: they would need a host that has them. */
function engineFor({ source, hostFunctions }: Script, used: readonly string[]): ModuleView {
  const reasons = new Set(used)
  if (/\b(?:fetch|Http)\b/.test(source)) reasons.add(REQUESTS)
  const places = new Set(hostFunctions.map((_, place) => `host_${place}`))
  const isNeeded = (item: ImportedItem) => {
    const reason = reasonOf(item)
    return reason === undefined || reasons.has(reason) || (reason === DECLARED && places.has(item.name))
  }
  let engine = readEngine(false)
  const neededCount = engine.imports.filter(isNeeded).length
  if (!engine.imports.slice(0, neededCount).every(isNeeded)) {
    const ordered = orderImports(readEngine(true), (item) => Number(!isNeeded(item)))
    if (!ordered) throw new Error('the imports of the script engine cannot be ordered')
    engine = readModule(ordered, { limits: 'none', readsCode: false }, NAME)
  }
  const bytes = dropLastImports(engine, engine.imports.length - neededCount)
  return readModule(bytes, { limits: 'none', readsCode: false }, NAME)
}

const NAME = 'the script engine'

/** @throws Error if the package is incomplete. */
function readEngine(readsCode: boolean): ModuleView {
  const bytes = brotliDecompressSync(readFileSync(packageFile('plugins/script-engine/engine.wasm.br')))
  return readModule(bytes, { limits: 'none', readsCode }, NAME)
}

/**
 * Makes a plug-in of a script: the engine, with the script as data, an export per function, and an `_initialize` that runs the script.
 *
 * @param functions - The functions of the script that it exports.
 * @param used - The modules of wasm-serve that it imports.
 */
function pluginOfScript(script: Script, functions: readonly string[], used: readonly string[]): Uint8Array {
  const view = engineFor(script, used)
  const indexOf = (wanted: string) => leb(view.exports.find(({ name }) => name === wanted)?.index ?? -1)
  const data = dataOf(script, functions)
  const typeCount = countItems(view, SECTION.type)
  const segmentCount = countItems(view, SECTION.data)
  const segment = leb(segmentCount)
  const own = view.functions.length
  const { hostFunctions } = script
  const firstHost = view.imports.length - hostFunctions.length
  const firstHostType = typeCount + 2
  const imports = hostFunctions.map(({ name }, place) => ({
    module: USER_NAMESPACE,
    name,
    type: firstHostType + place,
  }))
  const initialize = body([
    ...[...constant(data.length), CODE.call, ...indexOf(SPACE), ...constant(0), ...constant(data.length)],
    ...[...MEMORY_INIT, ...segment, 0, CODE.call, ...indexOf(START)],
  ])
  const callers = functions.map((_, place) => body([...constant(place), CODE.call, ...indexOf(CALL)]))
  const code = appendItems(view, SECTION.code, [initialize, ...callers])
  const exports = [
    renderExport(MEMORY, 'memory', 0),
    renderExport(INITIALIZE, 'function', own),
    ...functions.map((name, place) => renderExport(name, 'function', own + 1 + place)),
  ]
  const types = [leb(typeCount), ...functions.map(() => leb(typeCount + 1))]
  return withContents(
    view,
    new Map([
      [
        SECTION.type,
        appendItems(view, SECTION.type, [
          NOTHING_TO_NOTHING,
          NOTHING_TO_CODE,
          ...hostFunctions.map(renderTypeOf),
        ]),
      ],
      [SECTION.import, withLastImports(view, imports)],
      [SECTION.function, appendItems(view, SECTION.function, types)],
      [SECTION.export, renderItems(exports)],
      [SECTION.dataCount, leb(segmentCount + 1)],
      [
        SECTION.code,
        hostFunctions.length === 0
          ? code
          : withBody(view, code, HOST, body(callByPlace(hostFunctions, firstHost))),
      ],
      [SECTION.data, appendItems(view, SECTION.data, [concat([PASSIVE, leb(data.length), data])])],
    ]),
  )
}

/** A section of code in which an exported function has another body. */
function withBody(
  { exports, imports, name }: ModuleView,
  code: Uint8Array,
  wanted: string,
  replacement: Uint8Array,
): Uint8Array {
  const index = exports.find((each) => each.name === wanted)?.index ?? -1
  const reader = new ByteReader(code, 0, code.length, name)
  reader.u32()
  for (let place = imports.length; place < index; place++) reader.skip(reader.u32())
  const before = code.subarray(0, reader.at)
  reader.skip(reader.u32())
  return concat([before, replacement, code.subarray(reader.at)])
}

/** `() -> ()` and `() -> i32`. */
const NOTHING_TO_NOTHING = Uint8Array.of(0x60, 0, 0)
const NOTHING_TO_CODE = Uint8Array.of(0x60, 0, 1, 0x7f)

const MEMORY_INIT = [0xfc, 8]

/** Data that is copied by an instruction only. */
const PASSIVE = Uint8Array.of(1)

/** A function without locals. */
function body(code: readonly number[]): Uint8Array {
  const bytes = Uint8Array.from([0, ...code, CODE.end])
  return concat([leb(bytes.length), bytes])
}

function countItems({ bytes, sections, name }: ModuleView, wanted: number): number {
  const section = sections.find(({ id }) => id === wanted)
  return section ? new ByteReader(bytes, section.content, section.end, name).u32() : 0
}

function dataOf(
  { source, file, isModule, map, hostFunctions }: Script,
  functions: readonly string[],
): Uint8Array {
  return Buffer.from(`${JSON.stringify({ file, isModule, map, functions, hostFunctions })}\n${source}`)
}

/** Why functions of a script cannot be those of a plug-in; undefined if they can. */
function problemWithFunctions(functions: readonly string[]): string | undefined {
  if (functions.length === 0) return 'it exports no function: write "export" before one'
  const taken = functions.find((name) => TAKEN.includes(name))
  return taken && `it exports ${taken}, which is an export of every plug-in: give the function another name`
}

/** A script that was run. */
export interface BuiltScript {
  readonly facts: ScriptFacts
  /** undefined if the script cannot be a plug-in: the facts have the reason. */
  readonly plugin?: Uint8Array
}

/** Makes plug-ins of scripts. It runs a script, which may never end: use it in a thread that can be terminated. */
export class ScriptBuilder {
  #engine: WebAssembly.Module | undefined

  /** @param maxPages - Maximum of the memory in which the script is run, in pages of 64 KiB. */
  build(script: Script, maxPages: number): BuiltScript {
    this.#engine ??= new WebAssembly.Module(
      capMemory(readEngine(false), maxPages).bytes as Uint8Array<ArrayBuffer>,
    )
    const facts = inspect(instantiate(this.#engine), dataOf(script, []))
    if (facts.message !== undefined) return { facts }
    const { functions = [], used = [] } = facts
    const message = problemWithFunctions(functions)
    return message === undefined
      ? { facts, plugin: pluginOfScript(script, functions, used) }
      : { facts: { missing: [], message } }
  }
}

function inspect(engine: RunningEngine, data: Uint8Array): ScriptFacts {
  engine.bytes(engine.run(SPACE, data.length), data.length).set(data)
  let at: number
  try {
    at = engine.run(INSPECT)
  } catch (error) {
    // A script may overflow the stack, or call what is not there.
    return { message: error instanceof Error ? error.message : String(error), missing: [] }
  }
  const length = new DataView(engine.bytes(at, 4).slice().buffer).getUint32(0, true)
  return JSON.parse(Buffer.from(engine.bytes(at + 4, length)).toString())
}

interface RunningEngine {
  run(name: string, ...args: number[]): number
  bytes(at: number, length: number): Uint8Array
}

function instantiate(module: WebAssembly.Module): RunningEngine {
  let memory: WebAssembly.Memory | undefined
  const bytes = (at: number, length: number) => {
    if (!memory) throw new Error('the engine has no memory yet')
    return new Uint8Array(memory.buffer, at, length)
  }
  const { exports } = new WebAssembly.Instance(module, {
    [EXTISM_NAMESPACE]: extismFunctions(),
    wasi_snapshot_preview1: wasiFunctions(bytes),
    'wasm-serve:http': refused('an exchange'),
    'wasm-serve:kv': refused('the store'),
    [DECLARED]: refused('functions of the host'),
  })
  if (exports.memory instanceof WebAssembly.Memory) memory = exports.memory
  return {
    bytes,
    run(name, ...args) {
      const found = exports[name]
      if (typeof found !== 'function') throw new Error(`the engine has no function ${name}`)
      return Number(found(...args)) >>> 0
    },
  }
}

/** Nobody's configuration and variables. The log of an instance has what the script logs. */
function extismFunctions(): WebAssembly.ModuleImports {
  const kernel = new WebAssembly.Instance(new WebAssembly.Module(KERNEL_WASM)).exports
  const nothing = () => 0n
  const log = () => undefined
  return {
    ...kernel,
    ...{ config_get: nothing, var_get: nothing, var_set: log, get_log_level: () => 0 },
    ...{ log_trace: log, log_debug: log, log_info: log, log_warn: log, log_error: log },
    ...{ http_headers: nothing, http_status_code: () => 0 },
    http_request: () => refuse('requests'),
  }
}

/** All functions of a namespace that has nothing for a script which is only looked at. */
function refused(what: string): WebAssembly.ModuleImports {
  return new Proxy({}, { get: () => () => refuse(what) })
}

function refuse(what: string): never {
  throw new Error(`a script has no access to ${what} while it is loaded: use it in a function`)
}

/** The clock, random numbers and timers; nothing else. */
function wasiFunctions(bytes: (at: number, length: number) => Uint8Array): WebAssembly.ModuleImports {
  const done = 0
  const unsupported = 58
  return new Proxy(
    {
      clock_time_get: (_clock: number, _precision: bigint, at: number) => {
        const now = Buffer.alloc(8)
        now.writeBigUInt64LE(BigInt(Date.now()) * 1_000_000n)
        bytes(at, 8).set(now)
        return done
      },
      random_get: (at: number, length: number) => {
        bytes(at, length).set(randomBytes(length))
        return done
      },
      // Of one timer, whose time is at byte 24, as a number of nanoseconds.
      poll_oneoff: (subscription: number, event: number, _count: number, found: number) => {
        const wanted = Buffer.from(bytes(subscription, 48))
        const sleeper = new Int32Array(new SharedArrayBuffer(4))
        Atomics.wait(sleeper, 0, 0, Number(wanted.readBigUInt64LE(24) / 1_000_000n))
        bytes(event, 32).fill(0).set(wanted.subarray(0, 8))
        bytes(found, 4).set([1, 0, 0, 0])
        return done
      },
    },
    { get: (known, name) => Reflect.get(known, name) ?? (() => unsupported) },
  )
}
