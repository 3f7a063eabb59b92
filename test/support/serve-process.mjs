import { programConfiguration } from '../../lib/deploy/configuration.js'
import { openDeployments } from '../../lib/deploy/start.js'
import { openLog } from '../../lib/observe/log/log.js'
import { Meters } from '../../lib/observe/metrics.js'
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
let wanted = checked
const source = {
  ...programConfiguration(checked),
  read: (reading) => programConfiguration(wanted).read(reading),
}
const meters = new Meters()
const deployments = await openDeployments(source, () => ({ log, meters }))
const server = await startServer(checked, deployments.current.app, log)
deployments.follow(server)
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

async function changeTo(options) {
  const { record } = await deployments.attempt((_now, reread) => {
    wanted = checkServerOptions({ ...checked, ...options })
    return reread()
  }, 'test')
  return record
}

/** Resources while idle: memory after garbage collection, handles that keep the event loop alive, and calls that have not ended. */
async function measure() {
  // Threads that start or wait to be started have a timer.
  for (let i = 0; i < 5 || (i < 400 && process.getActiveResourcesInfo().includes('Timeout')); i++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const handles = {}
  for (const name of process.getActiveResourcesInfo()) handles[name] = (handles[name] ?? 0) + 1
  const calls = meters.all.reduce((sum, { stats }) => sum + stats.running + stats.waiting, 0)
  return { memory: process.memoryUsage(), handles, warnings, calls }
}
