// Loaded into the server before anything else: says for how long its event loop was held at most since it was last asked,
// and how much CPU time its thread used between two turns at most, which other processes hardly change.
import { openSync, readSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

/** The kernel adds up the time of a thread that runs every few ms, and whenever it waits. */
const LONG_MS = 3

if (isMainThread && process.send) {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()

  const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  const bytes = Buffer.alloc(128)
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const cpuMs = () =>
    Number.parseInt(bytes.latin1Slice(0, readSync(file, bytes, 0, bytes.length, 0)), 10) / 1e6
  let [turnedAt, usedMs, maxCpuMs] = [performance.now(), cpuMs(), 0]
  setInterval(() => {
    if (performance.now() - turnedAt > LONG_MS) Atomics.wait(cell, 0, 0, 0.01)
    const now = cpuMs()
    maxCpuMs = Math.max(maxCpuMs, now - usedMs)
    usedMs = now
    turnedAt = performance.now()
  }, 1).unref()

  process.on('message', () => {
    // Between two samples there is at least the resolution.
    process.send({ maxMs: Math.max(0, delay.max / 1e6 - 1), maxCpuMs })
    delay.reset()
    maxCpuMs = 0
  })
  process.channel.unref()
}
