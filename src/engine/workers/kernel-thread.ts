import { kernel } from '../../runtime/kernel.ts'
import { runThread } from './worker-thread.ts'

/* The file of a worker thread. Each runtime has its own, so that a thread loads only the runtime that it uses. */

runThread(kernel)
