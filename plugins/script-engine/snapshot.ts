import { readFileSync, writeFileSync } from 'node:fs'
import { brotliCompressSync, constants } from 'node:zlib'
import { concat, leb } from '../../src/module/bytes.ts'
import { orderImports } from '../../src/module/function-imports.ts'
import { constant } from '../../src/module/instructions.ts'
import { readModule } from '../../src/module/module.ts'
import { SECTION } from '../../src/module/module-view.ts'
import { renderExport, renderItems, withContents } from '../../src/module/module-writer.ts'
import { rankOfImport } from '../../src/script/engine.ts'

/*
 * tsx snapshot.ts <built> <engine>   starts the engine, and writes a module that has been started, compressed: its memory is its data
 *
 * An instance starts in the time that it takes to copy that, in place of the milliseconds in which QuickJS makes its globals.
 */

const [source = '', target = ''] = process.argv.slice(2)

/** Zeros between two pieces of data that are left out: a piece costs some bytes, too. */
const GAP = 16

const view = readModule(readFileSync(source), { limits: 'none', readsCode: false }, source)
const module = new WebAssembly.Module(view.bytes as Uint8Array<ArrayBuffer>)
const { exports } = new WebAssembly.Instance(module, importsThatFail(module))
if (!(exports.memory instanceof WebAssembly.Memory) || typeof exports._initialize !== 'function')
  throw new Error(`${source} is not the engine`)
exports._initialize()
const memory = new Uint8Array(exports.memory.buffer)
const kept = view.exports.filter(({ name }) => name === 'memory' || name.startsWith('script_'))
const pieces = [...piecesOf(memory)]
const bytes = withContents(
  view,
  new Map([
    [SECTION.memory, renderItems([concat([Uint8Array.of(0), leb(memory.length / 65_536)])])],
    [SECTION.export, renderItems(kept.map(({ name, kind, index }) => renderExport(name, kind, index)))],
    [SECTION.dataCount, leb(pieces.length)],
    [SECTION.data, renderItems(pieces)],
  ]),
)
// Imports that few scripts need are the last ones: those are easily removed.
const ordered = orderImports(readModule(bytes, { limits: 'none' }, source), rankOfImport)
if (!ordered || !WebAssembly.validate(ordered as Uint8Array<ArrayBuffer>))
  throw new Error('the engine is not valid')
writeFileSync(target, brotliCompressSync(ordered, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } }))

/** Equal starts need no host, but for a seed of Rust's hash maps, which have no keys of scripts: it is 0. */
function importsThatFail(module: WebAssembly.Module): WebAssembly.Imports {
  const imports: Record<string, Record<string, () => number>> = {}
  for (const { module: namespace, name } of WebAssembly.Module.imports(module)) {
    imports[namespace] ??= {}
    imports[namespace][name] = () => {
      if (name === 'random_get') return 0
      throw new Error(`the start of the engine calls ${namespace} ${name}`)
    }
  }
  return imports
}

function* piecesOf(memory: Uint8Array): Generator<Uint8Array> {
  let start = memory.findIndex((byte) => byte !== 0)
  for (let at = start, last = start; start >= 0 && at <= memory.length; at++) {
    if (at < memory.length && memory[at] !== 0) last = at
    else if (at === memory.length || at - last > GAP) {
      yield piece(start, memory.subarray(start, last + 1))
      const next = memory.subarray(at).findIndex((byte) => byte !== 0)
      if (next < 0) return
      start = last = at += next
    }
  }
}

/** Data that is copied to its address when the module is instantiated. */
function piece(address: number, bytes: Uint8Array): Uint8Array {
  return concat([Uint8Array.of(0, ...constant(address), 0x0b), leb(bytes.length), bytes])
}
