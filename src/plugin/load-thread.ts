import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { toFailure } from '../errors/call-failure.ts'
import { loadModule, packFacts } from './load-module.ts'
import type { FromLoadThread, LoadRequest, ToLoadThread } from './load-threads.ts'

/* The file of a thread that loads modules, one after the other. */

const port = parentPort
const postAnswer = (message: FromLoadThread, transfer: ArrayBuffer[] = []) =>
  port?.postMessage(message, transfer)

/** Bytes of an array that are copied; more have a buffer of their own, which is handed over. */
const COPIED_BYTES = 65_536

port?.on('message', (message: ToLoadThread) => {
  if (message !== 'admitted') void answerLoad(message)
})

async function answerLoad({ bytes, job }: LoadRequest): Promise<void> {
  try {
    const loaded = await loadModule(bytes, job, async (types) => {
      postAnswer({ types })
      if (port) await once(port, 'message') // where it is not admitted, this thread is ended
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
