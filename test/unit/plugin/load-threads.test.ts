import { execFileSync } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { PluginLoadFailedError } from '../../../src/errors/errors.ts'
import { terminateOrWriteOff, trackThread } from '../../../src/platform/stuck-threads.ts'
import { loadModule, type ModuleJob, readFacts } from '../../../src/plugin/load-module.ts'
import { loadInThread, scanInThreads } from '../../../src/plugin/load-threads.ts'
import { compilePlugin, loadPlugin } from '../../../src/plugin/plugin.ts'
import { sha256 } from '../../../src/plugin/source/digest.ts'
import { file, guest, guestBytes } from '../../support/guest.ts'
import { keepLog } from '../../support/instance.ts'

const JOB: ModuleJob = { name: 'test', memoryMax: 100, needsModule: true, resettable: 'yes' }
const GONE = new Error('nobody wants it any more')

/** Bytes that take a second to load: they are rewritten, and each function is one more thing to read. */
function large(functions: number, seed = 0): Uint8Array {
  const number = (value: number): number[] =>
    value < 128 ? [value] : [(value & 127) | 128, ...number(value >>> 7)]
  const section = (id: number, content: Uint8Array) =>
    Buffer.concat([Buffer.of(id, ...number(content.length)), content])
  const store = Buffer.of(0x41, 8, 0x41, 8, 0x36, 2, 0)
  const body = Buffer.concat([Buffer.of(0), ...Array.from({ length: 80 }, () => store), Buffer.of(0x0b)])
  const whole = Buffer.concat([Buffer.from(number(body.length)), body])
  return Buffer.concat([
    Buffer.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0),
    section(1, Buffer.of(1, 0x60, 0, 0)),
    section(3, Buffer.concat([Buffer.from(number(functions)), Buffer.alloc(functions)])),
    section(5, Buffer.of(1, 0, 10)),
    section(7, Buffer.of(1, 3, 0x72, 0x75, 0x6e, 0, 0)),
    section(10, Buffer.concat([Buffer.from(number(functions)), ...Array(functions).fill(whole)])),
    section(0, Buffer.of(1, 0x78, seed >> 8, seed & 255)),
  ])
}

const names = readdirSync(new URL('../../guests', import.meta.url)).filter((name) => name.endsWith('.wat'))

test.each(names)('a module that a thread has loaded is what it is when loaded here: %s', async (name) => {
  const bytes = guestBytes(name.replace(/\.wat$/, ''))
  for (const resettable of ['yes', 'no', 'program'] as const) {
    const [here, there] = await Promise.all([
      loadModule(bytes, { ...JOB, resettable }),
      loadInThread(bytes, { ...JOB, resettable }),
    ])
    expect({ ...there, module: 0, resettable: 0 }).toEqual({
      ...{ ...here, module: 0, resettable: 0 },
      checked: undefined, // stays in the thread
    })
    expect({ ...there.resettable, module: 0 }).toEqual({ ...here.resettable, module: 0 })
    for (const [mine, its] of [
      [here.module, there.module],
      [here.resettable?.module, there.resettable?.module],
    ] as const) {
      expect(its instanceof WebAssembly.Module).toBe(mine instanceof WebAssembly.Module)
      if (mine && its) expect(WebAssembly.Module.exports(its)).toEqual(WebAssembly.Module.exports(mine))
    }
  }
})

test.each([
  ['nothing', new Uint8Array()],
  ['text', Buffer.from('no module')],
  ['a module that is cut off', guestBytes('echo').subarray(0, 60)],
  ['code that is not valid', Buffer.from('AGFzbQEAAAABBQFgAAF/AwIBAAoEAQIACw==', 'base64')],
  ['too much memory', guestBytes('(module (memory 101))')],
])('what cannot be loaded is refused in the same words by a thread: %s', async (_what, bytes) => {
  const here = await loadModule(bytes, JOB).catch((error) => error)
  const there = await loadInThread(bytes, JOB).catch((error) => error)
  expect(here.code).toBe('WASM_SERVE_PLUGIN_INVALID')
  expect(there).toBeInstanceOf(here.constructor)
  expect([there.code, there.message]).toEqual([here.code, here.message])
})

test('a load that nobody wants any more is ended, and others go on', async () => {
  const gone = new AbortController()
  const loads = Array.from({ length: 4 }, () => loadInThread(large(20_000), JOB, { signal: gone.signal }))
  const innocent = loadInThread(guestBytes('echo'), JOB)
  gone.abort(GONE)
  const gaveUp = { status: 'rejected', reason: GONE }
  expect(await Promise.allSettled(loads)).toEqual([gaveUp, gaveUp, gaveUp, gaveUp])
  expect((await innocent).module).toBeInstanceOf(WebAssembly.Module)
  await expect(loadInThread(guestBytes('echo'), JOB, { signal: gone.signal })).rejects.toBe(GONE)
})

test('a thread compiles nothing that is not admitted', async () => {
  const refusal = new Error('there are too many types')
  const refused = loadInThread(guestBytes('echo'), JOB, {
    admit() {
      throw refusal
    },
  })
  await expect(refused).rejects.toBe(refusal)
  const types: number[] = []
  await loadInThread(guestBytes('echo'), JOB, { admit: ({ shared }) => void types.push(shared.length) })
  expect(types).toEqual([expect.any(Number)])
})

test('a load that takes too long is ended with its thread, and others go on', async () => {
  const late = loadInThread(large(20_000), JOB, { limitMs: 1 })
  await expect(late).rejects.toBeInstanceOf(PluginLoadFailedError)
  expect((await loadInThread(guestBytes('echo'), JOB)).module).toBeInstanceOf(WebAssembly.Module)
})

test('what two threads are stuck with is given to no other', async () => {
  const stuck = [1, 2].map((threadId) =>
    Object.assign(new EventEmitter(), { threadId, terminate: () => new Promise<number>(() => undefined) }),
  )
  for (const thread of stuck) {
    trackThread(thread, { digest: 'abc' })
    expect(await terminateOrWriteOff(thread, keepLog(), 1)).toBe(false)
  }
  try {
    const load = (digest: string) => loadInThread(guestBytes('echo'), JOB, { digest })
    await expect(load('abc')).rejects.toMatchObject({ code: 'WASM_SERVE_THREADS_STUCK' })
    expect((await load('abd')).module).toBeInstanceOf(WebAssembly.Module)
  } finally {
    for (const thread of stuck) thread.emit('exit', 1)
  }
})

test('bytes that are loaded stay whose they are', async () => {
  const bytes = guestBytes('echo')
  await loadInThread(bytes, JOB)
  expect(bytes).toEqual(guestBytes('echo'))
})

test('a thread that loads one module after another keeps no listeners of them', async () => {
  const warnings: Error[] = []
  const keep = (warning: Error) => void warnings.push(warning)
  process.on('warning', keep)
  try {
    for (let load = 0; load < 12; load++) {
      if (load % 2 === 0)
        await loadInThread(guestBytes('echo'), { ...JOB, needsModule: false, resettable: 'no' })
      else await loadInThread(Buffer.from('no module'), JOB).catch(() => undefined)
    }
  } finally {
    process.off('warning', keep)
  }
  expect(warnings.map(({ name }) => name)).not.toContain('MaxListenersExceededWarning')
})

test('nothing of a large module, or of any while something is served, is compiled by this thread', async () => {
  const compile = vi.spyOn(WebAssembly, 'compile')
  try {
    const plugin = await loadPlugin(large(600, 1), { isolation: 'fresh' })
    expect(plugin.resettable).toBeDefined()
    await loadPlugin(large(1, 2), { isolation: 'fresh', isServing: true })
    expect(compile).not.toHaveBeenCalled()
    await loadPlugin(large(1, 3))
    expect(compile).toHaveBeenCalledTimes(1)
  } finally {
    compile.mockRestore()
  }
})

test('equal plug-ins that are loaded at once are loaded once, also if one is not wanted any more', async () => {
  const gone = new AbortController()
  const load = (signal?: AbortSignal) =>
    loadPlugin(large(600, 4), { isolation: 'fresh', isServing: true, signal })
  const loads = [load(gone.signal), load(), load()]
  const plain = loadPlugin(large(600, 4))
  gone.abort(GONE)
  await expect(loads[0]).rejects.toBe(GONE)
  const [, first, second] = await Promise.allSettled(loads)
  const modules = [first, second].map((each) => each?.status === 'fulfilled' && each.value.module)
  expect(modules[0]).toBeInstanceOf(WebAssembly.Module)
  expect(modules[1]).toBe(modules[0])
  expect((await plain).module).toBe(modules[0])
  expect((await plain).resettable).toBeUndefined()
})

test('a plug-in whose equal was given up is loaded anew', async () => {
  const gone = new AbortController()
  const first = loadPlugin(large(600, 5), { signal: gone.signal })
  gone.abort(GONE)
  await expect(first).rejects.toBe(GONE)
  expect((await loadPlugin(large(600, 5))).functions.map(({ name }) => name)).toEqual(['run'])
})

test('of equal plug-ins that cannot be used each is told by its own name', async () => {
  const bytes = Buffer.concat([guestBytes('echo'), Buffer.of(255, 0)])
  const load = (name: string) =>
    compilePlugin({
      name,
      file: name,
      modules: [{ name: 'main', bytes, digest: 'd' }],
      settings: undefined,
      warnings: [],
    })
  const errors = await Promise.all(['one', 'two'].map((name) => load(name).catch((error) => error)))
  expect(errors.map(({ code }) => code)).toEqual(['WASM_SERVE_PLUGIN_INVALID', 'WASM_SERVE_PLUGIN_INVALID'])
  expect(errors.map(({ message }) => / (one|two) /.exec(message)?.[1])).toEqual(['one', 'two'])
})

test('files that a thread has scanned are what they are when read here', async () => {
  const paths = names.map((name) => guest(name.replace(/\.wat$/, '')))
  const scanned = scanInThreads(paths, { memoryMax: 100 })
  for (const [path, file] of scanned) {
    const bytes = readFileSync(path)
    expect(await file).toEqual({
      digest: sha256(bytes),
      size: bytes.length,
      facts: readFacts(bytes, { ...JOB, name: path }),
    })
  }
})

test('a file that is not a module, or cannot be read, is left to others', async () => {
  const text = file('text.wasm', Buffer.from('no module'))
  const pipe = join(dirname(text), 'pipe.wasm')
  execFileSync('mkfifo', [pipe])
  const large = file('large.wasm', guestBytes('(module (memory 101))'))
  const good = guest('echo')
  const paths = [text, pipe, large, dirname(text), '/missing.wasm', good]
  const scanned = scanInThreads(paths, { memoryMax: 100 })
  const found = await Promise.all(paths.map((path) => scanned.get(path)))
  expect(found.map((one) => one !== undefined)).toEqual([false, false, false, false, false, true])
})

test('the facts of a module keep what its compilers are, and not its file', () => {
  const bytes = readFileSync(new URL('../../../plugins/hello-tinygo/hello.wasm', import.meta.url))
  const { customSections } = readFacts(bytes, JOB)
  const content = customSections.find(({ name }) => name === 'producers')?.content
  expect(content?.length).toBeGreaterThan(0)
  expect(content?.buffer.byteLength).toBe(content?.length)
})

test('a large file is scanned as small ones before and after it', async () => {
  const section = Buffer.concat([Buffer.of(0, 0x81, 0x80, 0x80, 0x02, 0), Buffer.alloc(4_194_304)]) // without a name
  const paths = [
    guest('echo'),
    file('padded.wasm', Buffer.concat([guestBytes('upper'), section])),
    guest('upper'),
  ]
  for (const [path, scanned] of scanInThreads(paths, { memoryMax: 100 })) {
    const bytes = readFileSync(path)
    expect(await scanned).toMatchObject({ digest: sha256(bytes), size: bytes.length })
  }
})

test('equal lists of scanned files are one list', async () => {
  const paths = ['a', 'b'].map((name) => file(`${name}.wasm`, guestBytes('echo')))
  const found = await Promise.all(scanInThreads(paths, { memoryMax: 100 }).values())
  expect(found[0]?.facts.imports.length).toBeGreaterThan(0)
  expect(found[0]?.facts.imports).toBe(found[1]?.facts.imports)
})

test('files whose scan is aborted are left to others', async () => {
  const abort = new AbortController()
  abort.abort()
  const scanned = scanInThreads([guest('echo')], { memoryMax: 100 }, { signal: abort.signal })
  expect(await Promise.all(scanned.values())).toEqual([undefined])
})
