import { readFileSync } from 'node:fs'
import { packageFile } from '../platform/packages.ts'

/** The program of the worker thread. In a separate module, which the build replaces: programs that bundle us have no files. */
export const THREAD_SCRIPT: string = readFileSync(packageFile('lib/extism-thread.cjs'), 'utf8')
