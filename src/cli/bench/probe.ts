import process from 'node:process'
import { isMainThread } from 'node:worker_threads'

/*
 * Loaded into the server that is measured, before anything else: it tells the CPU time of its process (user and system,
 * all threads, in microseconds) to the one that measures, and ends the server when that one is gone.
 */

// Threads of the server are given it too.
if (isMainThread) {
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.(user + system)
  })
  process.on('disconnect', () => process.exit(0))
  if (!process.connected) process.exit(0) // it went while this process started
  process.channel?.unref()
}
