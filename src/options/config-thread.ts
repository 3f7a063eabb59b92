import { parentPort, workerData } from 'node:worker_threads'
import { readConfigText } from './config-text.ts'

/* The entry of a thread that parses one config text while the process serves. */

const [text, format, file] = workerData as Parameters<typeof readConfigText>
void readConfigText(text, format, file).then((read) => parentPort?.postMessage(read))
