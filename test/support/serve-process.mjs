import { Changer } from '../../lib/deploy/changer.js'
import { openLog } from '../../lib/observe/log/log.js'
import { checkServerOptions } from '../../lib/options/options.js'
import { createApp } from '../../lib/server/app.js'
import { startServer } from '../../lib/server/server.js'
import { endWithSignals } from '../../lib/server/shutdown.js'

/*
 * A server in a process of its own, which does what its parent says: puts another app in its place, tells what it holds.
 * Built code: a process runs no TypeScript on Node 20.
 */

const log = openLog('silent')
const checked = checkServerOptions(JSON.parse(process.argv[2]))
const changer = await Changer.open(wantedOf(checked), () => ({ log }))
const server = await startServer(checked, changer.live.app, log)
changer.follow(server)
endWithSignals(server, checked, log)

const warnings = []
process.on('warning', ({ message }) => warnings.push(message))

process.on('message', async ({ id, replace, change }) => {
  process.send({
    id,
    ...(replace ? await replaceBy(replace) : change ? await changeTo(change) : await measure()),
  })
})
process.send({ url: server.url })

async function replaceBy(options) {
  try {
    await server.replace((await createApp(checkServerOptions(options), log)).app)
    return {}
  } catch (error) {
    return { code: error.code }
  }
}

/** Makes what a changer serves. */
function wantedOf(options) {
  return async () => ({ options, pages: 0 })
}

function changeTo(options) {
  const wanted = checkServerOptions({ ...checked, ...options })
  return changer.tryChange('test', wantedOf(wanted))
}

/** What is held when there is nothing to do: memory, after all garbage is gone, and what keeps the event loop alive. */
async function measure() {
  // Threads that start or wait to be started have a timer.
  for (let i = 0; i < 5 || (i < 400 && process.getActiveResourcesInfo().includes('Timeout')); i++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const handles = {}
  for (const name of process.getActiveResourcesInfo()) handles[name] = (handles[name] ?? 0) + 1
  return { memory: process.memoryUsage(), handles, warnings }
}
