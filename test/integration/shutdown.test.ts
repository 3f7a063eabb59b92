import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, type TestContext, test } from 'vitest'

interface Server {
  /** What its `drain` does. Default: it ends at once. */
  readonly drain?: string
  /** Why it has failed, as code of a promise. */
  readonly failed?: string
  /** Returns the id of the parent. Default: npm has not started it. */
  readonly parentId?: string
  /** Further arguments of `endWithSignals`. */
  readonly more?: string
}

/** A process with a server, which writes what happens to it. */
async function startProcess(
  { onTestFinished }: TestContext,
  { drain = '', failed = 'undefined', parentId = 'undefined', more = '' }: Server,
) {
  const program = `
    import { endWithSignals } from './src/server/shutdown.ts'
    const say = (text) => console.log(text)
    const now = performance.now.bind(performance)
    const pass = (ms) => Object.assign(performance, { now: () => now() + ms })
    const none = () => {}
    const log = { info: none, warn: none, error: none, fatal: none, debug: none }
    const server = { drain: async () => { say('drain'); ${drain} }, failed: ${failed} }
    endWithSignals(server, { drainMs: 60_000, graceMs: 60_000 }, log, ${parentId}, () => say('reload') ${more})
    setInterval(none, 60_000)
    say('ready')`
  const args = ['--import', 'tsx', '--no-warnings', '--input-type=module', '--eval', program]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const said = async () => (await lines.next()).value
  expect(await said()).toBe('ready')
  return { said, ended, kill: (signal: NodeJS.Signals) => child.kill(signal) }
}

const FOREVER = 'await new Promise(() => {})'

test.concurrent.for([
  'SIGINT',
  'SIGUSR2',
] as const)('a server drains on %s, and its process ends well', async (signal, context) => {
  const { said, ended, kill } = await startProcess(context, {})
  kill(signal)
  expect(await said()).toBe('drain')
  expect(await ended).toEqual([0, null])
})

test.concurrent('a second signal ends a process that drains, with 1', async (context) => {
  const { said, ended, kill } = await startProcess(context, { drain: FOREVER })
  kill('SIGTERM')
  expect(await said()).toBe('drain')
  kill('SIGTERM')
  expect(await ended).toEqual([1, null])
})

test.concurrent('with npm, a second signal counts after a quarter of a second: npm repeats the first', async (context) => {
  const drain = `pass(300); ${FOREVER}`
  const { said, ended, kill } = await startProcess(context, { drain, parentId: '() => 1' })
  kill('SIGTERM')
  expect(await said()).toBe('drain')
  kill('SIGTERM')
  expect(await ended).toEqual([1, null])
})

test.concurrent('a process whose server has failed drains, and ends so that it is started again (EX_TEMPFAIL)', async (context) => {
  const { said, ended } = await startProcess(context, { failed: "Promise.resolve('threads are stuck')" })
  expect(await said()).toBe('drain')
  expect(await ended).toEqual([75, null])
})

test.concurrent('signals for a reload and for a restart end no server', async (context) => {
  const { said, ended, kill } = await startProcess(context, { more: ", () => say('restart')" })
  kill('SIGHUP')
  expect(await said()).toBe('reload')
  kill('SIGUSR2')
  expect(await said()).toBe('restart')
  kill('SIGTERM')
  expect(await said()).toBe('drain')
  expect(await ended).toEqual([0, null])
})
