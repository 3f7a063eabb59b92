import { describe, expect, test } from 'vitest'
import type { Engine } from '../../src/engine/engine.ts'
import { callText, type EngineKind, openEngine } from './engine.ts'
import { keepLog } from './instance.ts'
import { runs } from './runs.ts'

/** No memory is too much. */
const FAR = Number.POSITIVE_INFINITY

/** The shared suite of all engines, with every runtime. */
export const describeEngine = (kind: EngineKind) =>
  describe(`the ${kind.concurrent ? 'suspending ' : ''}${kind.isLazy ? 'lazy ' : ''}${kind.name} engine with the ${kind.runtime.name} runtime`, () => {
    test('gives each of 1,000 calls its own answer, made while it is still opening', async () => {
      const engine = await openEngine(kind, 'upper')
      const calls = Array.from({ length: 1_000 }, (_, i) => callText(engine, 'upper', `call ${i}`))
      expect(await Promise.all(calls)).toEqual(Array.from({ length: 1_000 }, (_, i) => `CALL ${i}`))
    })

    test('runs one call at a time', async () => {
      const engine = await openEngine(kind, 'count')
      const answers = await Promise.all(Array.from({ length: 9 }, () => callText(engine, 'count', '')))
      expect(answers).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])
    })

    test('replaces an instance that trapped before the next call', async () => {
      const engine = await openEngine(kind, 'count')
      expect(await callText(engine, 'count', '')).toBe('1')
      expect(await callText(engine, 'count', '')).toBe('2')
      await expect(callText(engine, 'trap', '')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
      expect(await callText(engine, 'count', '')).toBe('1')
    })

    test.skipIf(kind.runtime.name === 'sdk')(
      'takes the status of a guest that exits as its return code, and replaces its instance without a failure',
      async () => {
        const engine = await openEngine(kind, 'exit')
        expect(await callText(engine, 'run', '')).toBe('1')
        expect(await callText(engine, 'run', '0')).toBe('2')
        expect(await callText(engine, 'run', '0')).toBe('1')
        expect(await callText(engine, 'run', '')).toBe('1')
        await expect(callText(engine, 'run', '3')).rejects.toMatchObject({
          code: 'WASM_SERVE_GUEST_ERROR',
          message: 'The guest function "run" exited with status 3',
        })
        await expect(callText(engine, 'fail', 'its error')).rejects.toMatchObject({ message: 'its error' })
        expect(await callText(engine, 'run', '')).toBe('1')
        expect(engine.stats).toMatchObject({ recycled: 4, restarted: 0 })
      },
    )

    test('keeps an instance that said no', async () => {
      const engine = await openEngine(kind, 'refuse')
      for (const words of ['one', 'two']) {
        await expect(callText(engine, 'refuse', words)).rejects.toMatchObject({ message: words })
      }
    })

    test('gives calls that overlap with a trap their own answers', async () => {
      const engine = await openEngine(kind, 'trap')
      const calls = Array.from({ length: 60 }, (_, i) =>
        callText(engine, 'trap', i % 3 === 0 ? 'trap!' : 'ok'),
      )
      const settled = await Promise.allSettled(calls)
      expect(settled.map(({ status }) => status)).toEqual(
        Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? 'rejected' : 'fulfilled')),
      )
    })

    test('can be closed twice, also while it opens', async () => {
      const engine = await openEngine(kind, 'upper')
      await Promise.all([engine.close(), engine.close()])
      await engine.close()
      await expect(callText(engine, 'upper', 'a')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
    })

    test('gives each call an instance of its own when it is fresh', async () => {
      const engine = await openEngine(kind, 'count', {
        isolation: { isolation: 'fresh', recycleMemory: FAR },
      })
      const answers = await Promise.all(Array.from({ length: 5 }, () => callText(engine, 'count', '')))
      expect(answers).toEqual(['1', '1', '1', '1', '1'])
    })

    test('replaces an instance after as many calls as it may have', async () => {
      const engine = await openEngine(kind, 'count', {
        isolation: { isolation: 'reuse', recycle: 3, recycleMemory: FAR },
      })
      const answers = await Promise.all(Array.from({ length: 7 }, () => callText(engine, 'count', '')))
      expect(answers).toEqual(['1', '2', '3', '1', '2', '3', '1'])
    })

    test('replaces an instance whose memory has grown beyond the limit', async () => {
      const engine = await openEngine(kind, 'grow', {
        isolation: { isolation: 'reuse', recycleMemory: 40 * 65_536 },
      })
      const answers: string[] = []
      for (let i = 0; i < 10; i++) answers.push(await callText(engine, 'grow', ''))
      // A page when it is opened, 16 more for each call.
      expect(answers.join('')).toBe('1231231231')
    })

    test('tells what it has, and what it has done, also when it is closed', async () => {
      const engine = await openEngine(kind, 'count', {
        isolation: { isolation: 'reuse', recycle: 3, recycleMemory: FAR },
      })
      await engine.ready
      const idle = { waiting: 0, running: 0, timeouts: 0, stuck: 0, droppedLines: 0, isBreakerOpen: false }
      expect(engine.stats).toMatchObject({ ...idle, recycled: 0, restarted: 0 })
      expect(engine.stats.instances > 0).toBe(!kind.isLazy)

      const answered = Promise.all(Array.from({ length: 7 }, () => callText(engine, 'count', '')))
      const { waiting, running } = engine.stats
      const runsAtOnce = kind.runtime.name === 'kernel' && kind.name === 'inline' && !kind.isLazy
      expect(waiting + running).toBe(runsAtOnce ? 0 : 7)
      await answered
      expect(engine.stats).toMatchObject({ ...idle, recycled: 2, restarted: 0 })
      await expect(callText(engine, 'trap', '')).rejects.toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
      expect(engine.stats).toMatchObject({ recycled: 2, restarted: 1 })
      await engine.close()
      expect(engine.stats).toMatchObject({ ...idle, instances: 0, recycled: 2, restarted: 1 })
    })

    test('counts the lines that a guest logs beyond what it may', async () => {
      const engine = await openEngine(kind, 'chatty')
      await callText(engine, 'chatty', '')
      await callText(engine, 'chatty', '')
      expect(engine.stats).toMatchObject({ droppedLines: 100 })
    })

    test('tells the memory of its instances', async () => {
      const engine = await openEngine(kind, 'grow')
      await callText(engine, 'grow', '')
      const { guestBytes, kernelBytes, instances } = engine.stats
      expect(guestBytes).toBeGreaterThanOrEqual(instances * 65_536)
      expect(guestBytes % 65_536).toBe(0)
      expect(kernelBytes > 0).toBe(kind.runtime.name === 'kernel')
      await engine.close()
      expect(engine.stats).toMatchObject({ instances: 0, guestBytes: 0, kernelBytes: 0 })
    })

    test('lets the calls that wait end when it closes, and takes no more', async () => {
      const engine = await openEngine(kind, 'upper')
      const calls = ['a', 'b', 'c'].map((text) => callText(engine, 'upper', text))
      const closing = engine.close()
      await expect(callText(engine, 'upper', 'd')).rejects.toMatchObject({ code: 'WASM_SERVE_ENGINE_CLOSED' })
      expect(await Promise.all(calls)).toEqual(['A', 'B', 'C'])
      await closing
    })

    if (kind.name !== 'inline') {
      test('terminates each of several calls that do not return', async () => {
        const engine = await openEngine(kind, 'moody', { timeoutMs: 100 })
        const fast = Array.from({ length: 200 }, () => callText(engine, 'answer', 'x'))
        await Promise.all(fast) // from now on calls are assigned in advance
        const calls = ['L', 'L', 'x', 'L', 'x'].map((text) => callText(engine, 'answer', text))
        const ends = await Promise.allSettled(calls)
        expect(ends.map((end) => (end.status === 'fulfilled' ? end.value : end.reason.code))).toEqual([
          'WASM_SERVE_DEADLINE_EXCEEDED',
          'WASM_SERVE_DEADLINE_EXCEEDED',
          'x',
          'WASM_SERVE_DEADLINE_EXCEEDED',
          'x',
        ])
      })

      test('closes when the calls behind a terminated one are answered', async () => {
        const engine = await openEngine(kind, 'moody', { timeoutMs: 100 })
        const fast = Array.from({ length: 200 }, () => callText(engine, 'answer', 'x'))
        await Promise.all(fast)
        const [late, ...others] = ['L', 'x', 'x', 'x'].map((text) => callText(engine, 'answer', text))
        const closing = engine.close()
        await expect(late).rejects.toMatchObject({ code: 'WASM_SERVE_DEADLINE_EXCEEDED' })
        expect(await Promise.all(others)).toEqual(['x', 'x', 'x'])
        await closing
      })
    }

    test('carries inputs and outputs of every size', async () => {
      const engine = await openEngine(kind, 'echo')
      const sizes = [0, 1, 7, 8, 16_383, 16_384, 16_385, 100_000, 1_000_000]
      const texts = sizes.map((size) => String(size).padEnd(size, '.').slice(0, size))
      expect(await Promise.all(texts.map((text) => callText(engine, 'echo', text)))).toEqual(texts)
    })

    test("takes a guest's lines to the log of its call", async () => {
      const engine = await openEngine(kind, 'log')
      const logs = [keepLog(), keepLog(), keepLog()]
      await Promise.all(logs.map((log, i) => callText(engine, 'log', `line ${i}`, { log })))
      for (const [i, { lines }] of logs.entries()) {
        expect(lines.map(({ level, message }) => [level, message])).toEqual([
          ['info', `line ${i}`],
          ['warn', `line ${i}`],
          ['error', `line ${i}`],
        ])
        expect(lines[0]?.fields).toMatchObject({ plugin: 'log' })
      }
    })

    test('drops the lines that are too many, and says how many', async () => {
      const engine = await openEngine(kind, 'log', { timeoutMs: 20_000 }) // the SDK takes long on a busy machine
      const log = keepLog()
      await callText(engine, 'flood', 'x'.repeat(9_000), { log })
      expect(log.lines).toHaveLength(101)
      expect(log.lines.at(-1)?.fields).toMatchObject({ dropped: 400 })
    })

    test('says why when an export does not exist', async () => {
      const engine = await openEngine(kind, 'echo')
      await expect(callText(engine, 'ekko', '')).rejects.toBeInstanceOf(Error)
      expect(await callText(engine, 'echo', 'well')).toBe('well')
    })

    test.each([
      ['T', 'WASM_SERVE_GUEST_TRAP'],
      ['R', 'WASM_SERVE_GUEST_TRAP'],
      ['M', 'WASM_SERVE_GUEST_TRAP'],
      ['E', 'WASM_SERVE_GUEST_ERROR'],
    ])('after a guest that fails by "%s" the next call is well', async (mood, code) => {
      const engine = await openEngine(kind, 'moody', { timeoutMs: 20_000 }) // "M" takes long on a busy machine
      for (let i = 0; i < runs(2); i++) {
        await expect(callText(engine, 'answer', mood)).rejects.toMatchObject({ code })
        expect(await callText(engine, 'answer', `well ${i}`)).toBe(`well ${i}`)
      }
    })

    const opened = (engine: Engine) => (kind.isLazy ? callText(engine, 'any', '') : engine.ready)

    test('fails to open where the plug-in cannot be started, and says why', async () => {
      const engine = await openEngine(kind, 'bad-start')
      await expect(opened(engine)).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
    })

    test('fails to open where nobody provides an import', async () => {
      const engine = await openEngine(kind, 'bad-import')
      await expect(opened(engine)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_IMPORT_MISSING' })
    })
  })
