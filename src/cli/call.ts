import type { FastifyBaseLogger } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import { GuestTrapError, WorkerLostError } from '../errors/errors.ts'
import { openLog } from '../observe/log/log.ts'
import { compilePlugin } from '../plugin/plugin.ts'
import { readSource } from '../plugin/source/source.ts'
import { chooseRoute, type OpenRoute, openRoute } from '../route/open-route.ts'
import { openSharedResources } from '../route/shared.ts'
import { type Command, renderPage, takeOwnFlags } from './command.ts'
import { chooseEngineOf, INPUT_FLAGS, readGuestConfig, readInput } from './guest-config.ts'

/** Flags of this command alone. */
export const CALL_FLAGS = {
  ...INPUT_FLAGS,
  loop: { kind: 'count', placeholder: 'n', description: 'Call it n times, on one instance. [1]' },
  timing: { kind: 'switch', description: 'Say on standard error how long each call took.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve call <plugin.wasm> [function] [flags]',
  about:
    'Calls a function without HTTP. Its output goes to standard output byte for byte,\nlog lines and errors to standard error. Ends with 1 if the guest said no.',
  examples: [
    "wasm-serve call hello.wasm --input 'Bob Morane'",
    'echo -n Bob | wasm-serve call hello.wasm hello --stdin',
    'wasm-serve call -m manifest.json --input-file name.txt',
    'wasm-serve call hello.wasm -i Bob --loop 3 --timing',
  ],
  flags: CALL_FLAGS,
  more: 'And those of serve, less what is about HTTP: --config, --env, --allow-path,\n--allow-host, --link, --functions, --memory-max, --timeout ... (help flags)',
})

/** Calls one function of a plug-in, as Extism's command does. */
export const callCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, CALL_FLAGS)
    if (values.help) return host.out.write(HELP)
    const config = readGuestConfig(rest, host.environment, 'call')
    const { source, route, server, load } = config
    const input = await readInput(values, host)
    const plugin = await compilePlugin(await readSource(source, load), load)
    chooseEngineOf(config, plugin)
    const log = openLog(server.logLevel, { terminal: host.logTerminal, lines: host.logLines })
    const shared = openSharedResources(server, log)
    let opened: OpenRoute | undefined
    try {
      // No second thread: nothing is called when this one is lost.
      const chosen = await chooseRoute({ ...route, plugin, spareWorkers: 0 }, [], shared)
      // A person waits, and may end it: no watchdog.
      opened = openRoute(chosen, 'call', 0, log)
      const { instances } = opened
      await instances.ready
      const write = values.timing ? host.writeError : () => undefined
      const times = values.loop ?? 1
      const all = performance.now()
      for (let number = 1; number <= times; number++) {
        const begun = performance.now()
        const output = await callOnce(instances, chosen.exportName, input, log)
        write(`call ${number}: ${since(begun)} ms\n`)
        host.writeBytes(output)
      }
      write(`${times} calls: ${since(all)} ms in all\n`)
    } finally {
      await opened?.close()
      await shared.close()
    }
  },
}

/** Logs why a guest trapped, or its thread ended, as `serve` does. */
async function callOnce(
  engine: Engine,
  exportName: string,
  input: Uint8Array,
  log: FastifyBaseLogger,
): Promise<Uint8Array> {
  try {
    return await engine.call(exportName, input, { log })
  } catch (error) {
    if (error instanceof GuestTrapError)
      log.error({ ...(error.cause as object | undefined) }, 'the guest trapped')
    if (error instanceof WorkerLostError) log.error({ err: error.cause }, 'the thread ended')
    throw error
  }
}

function since(begun: number): string {
  return (performance.now() - begun).toFixed(3)
}
