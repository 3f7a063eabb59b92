import { parentPort, workerData } from 'node:worker_threads'
import { readConfigText } from './config-text.ts'

/* The entry of a thread that parses one config text while the process serves. */

const [text, format, file] = workerData as Parameters<typeof readConfigText>
parentPort?.postMessage(readConfigText(text, format, file))
