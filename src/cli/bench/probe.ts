import process from 'node:process'
import { isMainThread } from 'node:worker_threads'

/*
 * Preloaded into the server under test. It reports the CPU time of its process (user and system, all threads, in
 * microseconds) to the parent, and ends the server when the parent is gone.
 */

// Threads of the server preload it too.
if (isMainThread) {
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.(user + system)
  })
  process.on('disconnect', () => process.exit(0))
  if (!process.connected) process.exit(0) // the parent ended while this process started
  process.channel?.unref()
}
