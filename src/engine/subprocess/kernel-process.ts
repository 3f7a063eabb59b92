import { kernel } from '../../runtime/kernel.ts'
import { runProcess } from './run-process.ts'

/* A process's program. The server hands it over on standard input: the process need not read a file. */

runProcess(kernel)
