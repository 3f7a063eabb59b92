// Loaded into the server before anything else. It reports the longest turn of the event loop since the last report: how
// long it took, how long without the time in which its thread waited for a core, and how much CPU time it used.
import { openSync, readSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

/** The kernel updates the CPU time of a thread every few ms, and whenever the thread waits. */
const LONG_MS = 3

/** Between two samples there is at least so much. */
const RESOLUTION_MS = 1

if (isMainThread && process.send) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delay.enable()

  // CPU time and time on the run queue, in ns. (Linux, Documentation/scheduler/sched-stats.rst)
  const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  const bytes = Buffer.alloc(128)
  const readTimes = () => {
    const [cpu, waited] = bytes.latin1Slice(0, readSync(file, bytes, 0, bytes.length, 0)).split(' ')
    return { at: performance.now(), cpuMs: Number(cpu) / 1e6, waitedMs: Number(waited) / 1e6 }
  }
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let last = readTimes()
  let [heldMs, cpuMs] = [0, 0]
  setInterval(() => {
    if (performance.now() - last.at > LONG_MS) Atomics.wait(cell, 0, 0, 0.01)
    const now = readTimes()
    heldMs = Math.max(heldMs, now.at - last.at - (now.waitedMs - last.waitedMs) - RESOLUTION_MS)
    cpuMs = Math.max(cpuMs, now.cpuMs - last.cpuMs)
    last = readTimes()
  }, RESOLUTION_MS).unref()

  process.on('message', () => {
    process.send({ turnMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS), heldMs, cpuMs })
    delay.reset()
    heldMs = 0
    cpuMs = 0
  })
  process.channel.unref()
}
