import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { toFailure } from '../errors/call-failure.ts'
import { type Admit, loadModule } from './load-module.ts'
import type { FromLoadThread, LoadRequest, ToLoadThread } from './load-threads.ts'
import { cacheModule, loadCachedModule } from './module-cache.ts'
import { packFacts } from './module-facts.ts'
import { FileScanner } from './scan-file.ts'

/* The file of a thread that loads modules, one after another. */

const port = parentPort
const scanner = new FileScanner()
const postAnswer = (message: FromLoadThread, transfer: ArrayBuffer[] = []) =>
  port?.postMessage(message, transfer)

/** Arrays up to this size are copied; larger ones are transferred with their own buffer. */
const COPIED_BYTES = 65_536

port?.on('message', (message: ToLoadThread) => {
  if (message === 'admitted') return
  if ('paths' in message)
    postAnswer({ scanned: message.paths.map((path) => scanner.scan(path, message.job)) })
  else void answerLoad(message)
})

async function answerLoad({ bytes, job }: LoadRequest): Promise<void> {
  try {
    const admit: Admit = async (types) => {
      postAnswer({ types })
      if (port) await once(port, 'message') // without admission, this thread is terminated
    }
    const moduleCacheOf = job.needsModule ? job.moduleCacheOf : undefined
    const kept = moduleCacheOf === undefined ? undefined : await loadCachedModule(moduleCacheOf, false, admit)
    const loaded = kept ?? (await loadModule(bytes, job, admit))
    const { checked: _checked, ...result } = loaded
    const { buffer, byteLength = 0 } = loaded.bytes ?? {}
    postAnswer(
      { loaded: { ...result, facts: packFacts(loaded.facts) } },
      buffer instanceof ArrayBuffer && byteLength > COPIED_BYTES ? [buffer] : [],
    )
    if (moduleCacheOf !== undefined && !kept) await cacheModule(moduleCacheOf, loaded)
  } catch (error) {
    postAnswer({ failure: toFailure(error) })
  }
}
