import { parentPort } from 'node:worker_threads'
import { callableExports } from '../../lib/module/entry-points.js'
import { loadPlugin } from '../../lib/plugin/plugin.js'
import { kernel } from '../../lib/runtime/kernel.js'

/** Loads, opens and calls a module; tells how that ended. Built code: a thread runs no TypeScript on Node 20. */
parentPort.on('message', async (bytes) => {
  parentPort.postMessage(await outcomeOf(bytes))
})

const quiet = () => undefined
const log = { trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet }
const settings = { config: {}, wasi: {}, outputLimit: 2 ** 20, blockLimit: 2 ** 22, varMax: 2 ** 16, log }

async function outcomeOf(bytes) {
  try {
    const plugin = await loadPlugin(bytes, { memoryMax: 64, isolation: 'fresh' })
    for (const name of callableExports(plugin)) callOnce(plugin, name)
    return 'ok'
  } catch (error) {
    return error.code ?? `${error.name}: ${error.message}`
  }
}

/** A call may fail in every way that has a name. */
function callOnce(plugin, name) {
  const instance = kernel.open(plugin, settings)
  try {
    instance.call(name, Buffer.from('input'), { log })
  } catch (error) {
    if (!error.code?.startsWith('WASM_SERVE_')) throw error
  } finally {
    instance.close()
  }
}
