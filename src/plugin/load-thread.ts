import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { toFailure } from '../errors/call-failure.ts'
import { keepModule, loadKept } from './kept-modules.ts'
import { type Admit, loadModule } from './load-module.ts'
import type { FromLoadThread, LoadRequest, ToLoadThread } from './load-threads.ts'
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
    const keptIn = job.needsModule ? job.keptIn : undefined
    const kept = keptIn === undefined ? undefined : await loadKept(keptIn, false, admit)
    const loaded = kept ?? (await loadModule(bytes, job, admit))
    const { checked: _checked, ...result } = loaded
    const { buffer, byteLength = 0 } = loaded.bytes ?? {}
    postAnswer(
      { loaded: { ...result, facts: packFacts(loaded.facts) } },
      buffer instanceof ArrayBuffer && byteLength > COPIED_BYTES ? [buffer] : [],
    )
    if (keptIn !== undefined && !kept) await keepModule(keptIn, loaded)
  } catch (error) {
    postAnswer({ failure: toFailure(error) })
  }
}
