import { sdk } from '../../runtime/sdk.ts'
import { runThread } from './worker-thread.ts'

/* A worker thread's file. Each runtime has one of its own: a thread loads the one that it runs. */

runThread(sdk)
