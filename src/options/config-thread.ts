import { parentPort, workerData } from 'node:worker_threads'
import { readConfigText } from './config-text.ts'

/* The file of a thread that reads one config text, while this process serves. */

const [text, format, file] = workerData as Parameters<typeof readConfigText>
parentPort?.postMessage(readConfigText(text, format, file))
