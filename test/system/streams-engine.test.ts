import { kernel } from '../../src/runtime/kernel.ts'
import { STREAMS_PER_THREAD } from '../../src/runtime/streaming.ts'
import { describeEngine } from '../support/engine-suite.ts'

/* Threads that have many calls at a time, with guests that need not wait: these run with each version of Node.js. */

describeEngine({ name: 'workers', runtime: kernel, concurrent: STREAMS_PER_THREAD })
