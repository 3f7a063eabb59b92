import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { watchParent } from '../../src/engine/watchdog.ts'

test('the thread that watches the parent starts at once, though no guest runs', () => {
  const threads: Worker[] = []
  const start = () => {
    const thread = new Worker('require("node:worker_threads").parentPort.on("message", () => {})', {
      eval: true,
    })
    threads.push(thread)
    return thread
  }
  onTestFinished(async () => void (await Promise.all(threads.map((thread) => thread.terminate()))))
  watchParent(60_000, { start })
  expect(threads).toHaveLength(1)
})
