import { Readable } from 'node:stream'
import type { FastifyBaseLogger } from 'fastify'
import type { Engine } from '../engine/engine.ts'
import { WorkerLostError } from '../errors/errors.ts'
import { connectStream } from '../guest/streams/stream-protocol.ts'
import { openLog } from '../observe/log/log.ts'
import type { Caller } from '../observe/observe.ts'
import { compilePlugin } from '../plugin/plugin.ts'
import { readSource } from '../plugin/source/source.ts'
import { openAppResources } from '../route/app-resources.ts'
import { type ChosenRoute, chooseRoute, type OpenRoute, openRoute } from '../route/open-route.ts'
import { IGNORED_OUTPUT } from '../route/streams/serve-streams.ts'
import { type Command, type Host, renderPage, takeOwnFlags } from './command.ts'
import { chooseEngineOf, INPUT_FLAGS, readGuestConfig, readInput } from './guest-config.ts'
import { StdioExchange } from './stdio-exchange.ts'

/** Flags of this command only. */
export const CALL_FLAGS = {
  ...INPUT_FLAGS,
  loop: { kind: 'count', placeholder: 'n', description: 'Call the function n times, on one instance. [1]' },
  timing: { kind: 'switch', description: 'Print the duration of each call to standard error.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve call <plugin.wasm> [function] [flags]',
  about:
    'Calls a function without HTTP. Its output goes to standard output byte for byte,\nlog lines and errors to standard error. Exits with 1 if the guest failed.',
  examples: [
    "wasm-serve call hello.wasm --input 'Bob Morane'",
    'echo -n Bob | wasm-serve call hello.wasm hello --stdin',
    'wasm-serve call -m manifest.json --input-file name.txt',
    'wasm-serve call hello.wasm -i Bob --loop 3 --timing',
  ],
  flags: CALL_FLAGS,
  more: 'Flags of serve work too, except those about HTTP: --config, --env, --allow-path,\n--allow-host, --link, --functions, --memory-max, --timeout ... (help flags)',
})

/** Calls one function of a plug-in, like Extism's command line. */
export const callCommand: Command = {
  async run(argv, host) {
    const { values, rest } = takeOwnFlags(argv, CALL_FLAGS)
    if (values.help) return host.out.write(HELP)
    const config = readGuestConfig(rest, host, 'call')
    const { source, route, server, load } = config
    const isPiped = values.stdin && values.input === undefined && values['input-file'] === undefined
    const piped = isPiped ? undefined : await readInput(values, host)
    const plugin = await compilePlugin(await readSource(source, load), load)
    chooseEngineOf(config, plugin)
    const log = openLog(server.logLevel, { terminal: host.logTerminal, lines: host.logLines })
    const shared = openAppResources(server, log)
    let opened: OpenRoute | undefined
    try {
      // No spare thread: after the loss of this one, no further call runs.
      const chosen = withoutDefaultDeadline(
        await chooseRoute({ ...route, plugin, spareWorkers: 0 }, [], shared),
      )
      // No watchdog, and no deadline unless one is set: the user waits for the call and can interrupt it.
      opened = openRoute(chosen, 'call', 0, log)
      const { instances } = opened
      await instances.ready
      const input = piped ?? (chosen.streams ? undefined : await host.readInput())
      const write = values.timing ? host.writeError : () => undefined
      const times = values.loop ?? 1
      const all = performance.now()
      for (let number = 1; number <= times; number++) {
        const [begun, before] = [performance.now(), instances.stats.checks]
        const output = chosen.streams
          ? await callStreaming(instances, chosen.exportName, input ? [input] : host.readChunks(), host, log)
          : await callOnce(instances, chosen.exportName, input ?? NO_BYTES, { log })
        const checks = route.budget === undefined ? '' : `, ${instances.stats.checks - before} checks`
        write(`call ${number}: ${since(begun)} ms${checks}\n`)
        host.writeBytes(output)
      }
      write(`${times} calls: ${since(all)} ms in total\n`)
    } finally {
      await opened?.close()
      await shared.close()
    }
  },
}

/** In a thread too, the user waits as long as it takes. */
function withoutDefaultDeadline(route: ChosenRoute): ChosenRoute {
  const { engine, options } = route
  if (engine.name === 'inline' || options.deadline.from !== 'default') return route
  return { ...route, engine: { ...engine, timeoutMs: undefined } }
}

/** The input of a guest that streams is its body. @returns its output; empty if it has started an answer. */
async function callStreaming(
  engine: Engine,
  exportName: string,
  body: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  host: Host,
  log: FastifyBaseLogger,
): Promise<Uint8Array> {
  const exchange = new StdioExchange(Readable.from(body), (bytes) => host.sendBytes(bytes), log)
  const caller = { log, host: {} }
  connectStream(caller.host, exchange)
  const output = await callOnce(engine, exportName, NO_BYTES, caller)
  if (!exchange.isStarted) return output
  if (output.length > 0) log.warn({ bytes: output.length }, IGNORED_OUTPUT)
  return NO_BYTES
}

/** Logs the cause of an error, like `serve`. */
async function callOnce(
  engine: Engine,
  exportName: string,
  input: Uint8Array,
  caller: Caller,
): Promise<Uint8Array> {
  const { log } = caller
  try {
    return await engine.call(exportName, input, caller)
  } catch (error) {
    if (error instanceof WorkerLostError) log.error({ err: error.cause }, 'the thread exited')
    else if (error instanceof Error && error.cause) log.error({ ...error.cause }, 'the call was interrupted')
    throw error
  }
}

const NO_BYTES = new Uint8Array()

function since(begun: number): string {
  return (performance.now() - begun).toFixed(3)
}
