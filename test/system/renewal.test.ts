import { readdirSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { GuestError } from '../../src/errors/errors.ts'
import { callableExports } from '../../src/module/entry-points.ts'
import { CHECK_EXPORT, RESET_EXPORT } from '../../src/module/names.ts'
import { type CompiledPlugin, loadPlugin } from '../../src/plugin/plugin.ts'
import { kernel } from '../../src/runtime/kernel.ts'
import { guest } from '../support/guest.ts'
import { keepLog, settingsOf } from '../support/instance.ts'

const caller = { log: keepLog() }

/** Keeps the exports of the resettable instances that are made. */
function keepInstances(): WebAssembly.Exports[] {
  const { Instance } = WebAssembly
  const made: WebAssembly.Exports[] = []
  WebAssembly.Instance = class extends Instance {
    constructor(module: WebAssembly.Module, imports?: WebAssembly.Imports) {
      super(module, imports)
      if (RESET_EXPORT.global(0) in this.exports) made.push(this.exports)
    }
  }
  onTestFinished(() => {
    WebAssembly.Instance = Instance
  })
  return made
}

/** All that a guest can have changed in it. */
interface State {
  readonly globals: readonly unknown[]
  readonly bytes: Buffer
}

function stateOf(exports: WebAssembly.Exports, globals: number): State {
  const memory = exports[RESET_EXPORT.memory] as WebAssembly.Memory | undefined
  // The counter of checks is no state of the guest. An instance with too much memory keeps it: it is not renewed.
  const counter = exports[CHECK_EXPORT.counter]
  if (counter instanceof WebAssembly.Global) counter.value = 0
  const values = Array.from({ length: globals }, (_, index) => {
    const global = exports[RESET_EXPORT.global(index)] as WebAssembly.Global
    return global.value
  })
  return { globals: values, bytes: Buffer.from(new Uint8Array(memory?.buffer ?? new ArrayBuffer(0))) }
}

/** What a renewed memory is longer by must be zero. */
function isSame(renewed: State, fresh: State): boolean {
  const { length } = fresh.bytes
  return (
    String(renewed.globals) === String(fresh.globals) &&
    renewed.bytes.subarray(0, length).equals(fresh.bytes) &&
    renewed.bytes.subarray(length).every((byte) => byte === 0)
  )
}

/** Its imports are never called. */
function unstartedInstance({ resettable, module }: CompiledPlugin): WebAssembly.Exports {
  const imports: Record<string, Record<string, () => void>> = {}
  for (const { module: namespace, name } of WebAssembly.Module.imports(module)) {
    imports[namespace] = { ...imports[namespace], [name]: () => undefined }
  }
  return new WebAssembly.Instance(resettable?.module ?? module, imports).exports
}

const INPUTS = ['', 'world', '{"a":1}', '# title\n\n- one\n- two', 'x'.repeat(100_000)]

/** Not those that import what is no plug-in's, or that run for ever if the input is not JSON. */
const folder = new URL('../../plugins/', import.meta.url)
const plugins = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((path) => /^(?!visits|streams-|socket-|http-assemblyscript)[^/]+\/[^/]+\.wasm$/.test(path))
  .map((path) => new URL(path, folder).pathname)
const scripts = ['templates/hello/plugin.js', 'templates/http/plugin.js'].map(
  (path) => new URL(path, folder).pathname,
)
const guests = ['upper', 'stain', 'sizes', 'wasi', 'config', 'log', 'several'].map(guest)

describe.each([...plugins, ...scripts, ...guests])('%s', (path) => {
  test('after each call it is byte for byte what it was when it was made, or when it was started', async () => {
    const made = keepInstances()
    const plugin = await loadPlugin(path, { isolation: 'fresh' })
    const { globals = -1 } = plugin.resettable ?? {}
    expect(globals).not.toBe(-1)
    const config = { vowels: 'aeiou' }
    const other = kernel.open(plugin, settingsOf({ config }))
    onTestFinished(() => other.close())
    const started = stateOf(made[0] ?? {}, globals)
    const unstarted = stateOf(unstartedInstance(plugin), globals)
    const settings = { ...settingsOf({ config }), httpErrors: 'status' as const } // a call that fails is not compared

    let compared = 0
    for (const name of callableExports(plugin)) {
      for (const input of INPUTS) {
        const instance = kernel.open(plugin, settings)
        const thrown = await Promise.resolve()
          .then(() => instance.call(name, Buffer.from(input), caller))
          .catch((error: unknown) => error)
        await instance.close()
        if (thrown instanceof Error && !(thrown instanceof GuestError)) continue // it is not used again
        const state = stateOf(made.at(-1) ?? {}, globals)
        expect(isSame(state, started) || isSame(state, unstarted), `${name}(${input.slice(0, 20)})`).toBe(
          true,
        )
        compared++
      }
    }
    expect(compared).toBeGreaterThan(0)
  })
})
