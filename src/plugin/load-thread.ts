import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { toFailure } from '../errors/call-failure.ts'
import { loadModule, packFacts } from './load-module.ts'
import type { FromLoadThread, LoadRequest, ToLoadThread } from './load-threads.ts'
import { scanFile } from './scan-file.ts'

/* The file of a thread that loads modules, one after another. */

const port = parentPort
const postAnswer = (message: FromLoadThread, transfer: ArrayBuffer[] = []) =>
  port?.postMessage(message, transfer)

/** Arrays up to this size are copied; larger ones are transferred with their own buffer. */
const COPIED_BYTES = 65_536

port?.on('message', (message: ToLoadThread) => {
  if (message === 'admitted') return
  if ('paths' in message) postAnswer({ scanned: message.paths.map((path) => scanFile(path, message.job)) })
  else void answerLoad(message)
})

async function answerLoad({ bytes, job }: LoadRequest): Promise<void> {
  try {
    const loaded = await loadModule(bytes, job, async (types) => {
      postAnswer({ types })
      if (port) await once(port, 'message') // without admission, this thread is terminated
    })
    const { buffer, byteLength = 0 } = loaded.bytes ?? {}
    postAnswer(
      { loaded: { ...loaded, facts: packFacts(loaded.facts) } },
      buffer instanceof ArrayBuffer && byteLength > COPIED_BYTES ? [buffer] : [],
    )
  } catch (error) {
    postAnswer({ failure: toFailure(error) })
  }
}
