// Loaded into the server before anything else: says how long its event loop was held at most since it was last asked.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

if (isMainThread && process.send) {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  process.on('message', () => {
    // Between two samples there is at least the resolution.
    process.send({ maxMs: Math.max(0, delay.max / 1e6 - 1) })
    delay.reset()
  })
  process.channel.unref()
}
