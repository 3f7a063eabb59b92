import { onTestFinished } from 'vitest'
import { openWasi, type WasiOptions } from '../../src/runtime/wasi/wasi.ts'
import { wasiCalls } from './wasi-calls.ts'

export { errnoName, OPEN, RIGHTS } from './wasi-calls.ts'

/** A guest without code: calls the functions as a guest would, and reads the answers from its memory. */
export function openGuest(options: Partial<WasiOptions> = {}, fdFolder?: string) {
  const lines: string[] = []
  const writeLine = (stream: string, line: string) => lines.push(`${stream}: ${line}`)
  const wasi = openWasi({ writeLine, ...options }, fdFolder)
  onTestFinished(() => wasi.close())
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 64 })
  wasi.attach(memory)
  return { ...wasiCalls(wasi.imports, memory), wasi, memory, lines }
}
