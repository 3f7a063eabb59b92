import { parentPort, workerData } from 'node:worker_threads'
import { toFailure } from '../../errors/call-failure.ts'
import { loadFunctions } from '../../guest/host-functions.ts'
import { kvImports, withKv } from '../../guest/store/kv.ts'
import type { CompiledPlugin } from '../../plugin/plugin.ts'
import type { InstanceSettings, Runtime } from '../../runtime/runtime.ts'
import { openInline } from '../inline.ts'
import { CallLoop, Reporter } from './call-loop.ts'
import { bridgedHttp, bridgedKv, bridgedVars, HostClient } from './host-bridge.ts'
import type { FromWorker, WorkerStart } from './protocol.ts'
import { Stamp } from './stamp.ts'

const threadStart = workerData as WorkerStart
const stamp = new Stamp(threadStart.stamp)
const post = (message: FromWorker, transfer: ArrayBuffer[] = []) => parentPort?.postMessage(message, transfer)
const reporter = new Reporter(threadStart.answers, stamp, post)

/**
 * The main function of a worker thread: an inline engine whose calls come from the main thread and whose answers go back
 * there.
 */
export function runThread(runtime: Runtime): void {
  openThreadEngine(runtime).catch((error) => post({ startFailure: toFailure(error) }))
}

async function openThreadEngine(runtime: Runtime): Promise<void> {
  const options = {
    plugin: threadStart.plugin as CompiledPlugin,
    runtime,
    settings: await settingsOf(threadStart),
    maxQueue: 1,
    ...threadStart.isolation,
  }
  const begun = performance.now()
  const engine = openInline(options)
  await engine.ready
  const startMs = performance.now() - begun
  const loop = new CallLoop(threadStart, engine, stamp, reporter)
  parentPort?.on('message', () => loop.run())
  post({ startMs })
}

async function settingsOf({
  plugin,
  settings,
  functions,
  host,
  hostParts,
}: WorkerStart): Promise<InstanceSettings> {
  const client = new HostClient(host, stamp)
  const users = await loadFunctions(functions)
  return {
    ...settings,
    functions: hostParts.includes('kv') ? withKv(users, kvImports(plugin, users), bridgedKv(client)) : users,
    log: reporter.log,
    logsAtOnce: true,
    ...(hostParts.includes('http') && { http: bridgedHttp(client) }),
    ...(hostParts.includes('vars') && { vars: bridgedVars(client) }),
  }
}
