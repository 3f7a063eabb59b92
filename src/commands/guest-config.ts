import { type Config, type Environment, readConfig } from '../config/config.ts'
import { flags } from '../config/flags.ts'
import { UsageError } from '../errors.ts'

/** Options of a route that are about HTTP, or about requests that come at the same time. */
const HTTP_OPTIONS: ReadonlySet<string> = new Set([
  ...['method', 'url', 'contract', 'headers', 'errorStatus', 'bodyLimit', 'contentType', 'timing'],
  ...['maxQueue', 'maxQueueBytes', 'maxWaitMs', 'spareWorkers', 'idempotent'],
])

/** Flags of a command that runs a guest without a server: those of `serve`, less what is about HTTP. */
export const guestFlags = flags.filter(
  ({ scope, option }) =>
    option === 'logLevel' || (scope !== 'server' && !(scope === 'route' && HTTP_OPTIONS.has(option))),
)

/**
 * Reads the command line and the environment as {@link readConfig} does, for a command that serves nothing. Variables
 * that are about HTTP are left unread; flags that are, and a port, are refused.
 *
 * @param name - The command's, for messages.
 * @throws {@link UsageError} also if no plug-in is named.
 */
export function readGuestConfig(
  argv: readonly string[],
  environment: Environment,
  name: string,
): Config & { readonly source: string } {
  const others = flags.filter((flag) => !guestFlags.includes(flag))
  const left = { ...environment, ...Object.fromEntries(others.map(({ variable }) => [variable, undefined])) }
  const config = readConfig(argv, left)
  const refused = others.find(({ scope, option }) => Object.hasOwn(config[scope], option))
  if (refused?.option === 'port') throw new UsageError(`${name} needs no port: nothing is served`)
  if (refused) throw new UsageError(`--${refused.name}: means nothing to ${name}, which serves nothing`)
  const { source } = config
  if (source === undefined) throw new UsageError(`name a plug-in, such as wasm-serve ${name} hello.wasm`)
  return { ...config, source }
}
