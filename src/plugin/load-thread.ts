import { once } from 'node:events'
import { parentPort } from 'node:worker_threads'
import { toFailure } from '../errors/call-failure.ts'
import { type BuiltScript, ScriptBuilder } from '../script/engine.ts'
import { withoutTypes } from '../script/types.ts'
import { type Admit, loadModule } from './load-module.ts'
import type { FromLoadThread, LoadRequest, ScriptRequest, ToLoadThread } from './load-threads.ts'
import { cacheModule, loadCachedModule } from './module-cache.ts'
import { packFacts } from './module-facts.ts'
import { FileScanner } from './scan-file.ts'

/* The file of a thread that loads modules, one after another. */

const port = parentPort
const scanner = new FileScanner()
const scripts = new ScriptBuilder()
const postAnswer = (message: FromLoadThread, transfer: ArrayBuffer[] = []) =>
  port?.postMessage(message, transfer)

/** Arrays up to this size are copied; larger ones are transferred with their own buffer. */
const COPIED_BYTES = 65_536

port?.on('message', (message: ToLoadThread) => {
  if (message === 'admitted') return
  if ('paths' in message)
    postAnswer({ scanned: message.paths.map((path) => scanner.scan(path, message.job)) })
  else if ('script' in message) answerScript(message)
  else void answerLoad(message)
})

/** Pages of the memory in which a script is run to see what it exports: 128 MiB. */
const SCRIPT_PAGES = 2_048

function answerScript(request: ScriptRequest): void {
  try {
    // Node.js warns that it may remove types in another way one day; this thread has no other warnings.
    process.removeAllListeners('warning')
    const built = build(request)
    const { buffer } = built.plugin ?? {}
    postAnswer({ built }, buffer instanceof ArrayBuffer ? [buffer] : [])
  } catch (error) {
    postAnswer({ failure: toFailure(error) })
  }
}

function build({ script, hasTypes }: ScriptRequest): Partial<BuiltScript> {
  const source = hasTypes ? withoutTypes(script.source) : script.source
  if (source === undefined) return {}
  if (typeof source === 'object') return { facts: source }
  return scripts.build({ ...script, source }, SCRIPT_PAGES)
}

async function answerLoad({ bytes, job }: LoadRequest): Promise<void> {
  try {
    const admit: Admit = async (types) => {
      postAnswer({ types })
      if (port) await once(port, 'message') // without admission, this thread is terminated
    }
    const moduleCacheOf = job.needsModule ? job.moduleCacheOf : undefined
    const kept = moduleCacheOf === undefined ? undefined : await loadCachedModule(moduleCacheOf, false, admit)
    const loaded = kept ?? (await loadModule(bytes, job, admit))
    const { checked: _checked, ...result } = loaded
    const { buffer, byteLength = 0 } = loaded.bytes ?? {}
    postAnswer(
      { loaded: { ...result, facts: packFacts(loaded.facts) } },
      buffer instanceof ArrayBuffer && byteLength > COPIED_BYTES ? [buffer] : [],
    )
    if (moduleCacheOf !== undefined && !kept) await cacheModule(moduleCacheOf, loaded)
  } catch (error) {
    postAnswer({ failure: toFailure(error) })
  }
}
