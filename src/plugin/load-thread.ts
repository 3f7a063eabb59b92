import { parentPort } from 'node:worker_threads'
import { toFailure } from '../engine/workers/call-failure.ts'
import { loadModule } from './load-module.ts'
import type { LoadAnswer, LoadRequest } from './load-threads.ts'

/* The file of a thread that loads modules, one after the other. */

const post = (answer: LoadAnswer) => parentPort?.postMessage(answer)

parentPort?.on('message', ({ bytes, job }: LoadRequest) => {
  loadModule(bytes, job).then(
    (loaded) => post({ loaded }),
    (error) => post({ failure: toFailure(error) }),
  )
})
