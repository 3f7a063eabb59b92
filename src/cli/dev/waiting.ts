import { createServer, type RequestListener } from 'node:http'
import { type CommandContext, readOwnOptions } from '../../deploy/configuration.ts'
import { requestId } from '../../observe/log/request-log.ts'
import { checkNode } from '../../options/check-config.ts'
import type { Config } from '../../options/config.ts'
import { fromWord } from '../../options/config-node.ts'
import type { CheckedServerOptions } from '../../options/options.ts'
import { listenAt, urlOf } from '../../server/listen.ts'
import { type StaleReason, staleAnswer } from '../../server/stale.ts'

/** Answers at the address of a project that cannot be served yet. */
export interface Waiting {
  /** undefined if it does not listen, as the options are wrong, or ask for TLS. */
  readonly url: string | undefined
  /** The answer of all requests from now on. */
  show(reason: StaleReason): void
  /** Frees the address. */
  close(): Promise<void>
}

/** @throws ListenError if it cannot listen. */
export async function openWaiting(
  config: Config,
  context: CommandContext,
  first: StaleReason,
): Promise<Waiting> {
  let reason = first
  const show = (next: StaleReason) => {
    reason = next
  }
  const options = await addressOf(config, context)
  if (!options || options.tls) return { url: undefined, show, close: async () => undefined }
  const answer: RequestListener = (request, response) => {
    const { status, headers, body } = staleAnswer(reason, request.headers.accept, requestId(request))
    response.writeHead(status, { ...headers, connection: 'close' }).end(body)
    request.resume()
  }
  const server = createServer(answer)
  await listenAt(server, options, '--port')
  return {
    url: urlOf(server, 'http'),
    show,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** undefined if the options are wrong, which is why the project is not served. */
async function addressOf(config: Config, context: CommandContext): Promise<CheckedServerOptions | undefined> {
  try {
    const { server } = await readOwnOptions(config, context)
    return checkNode(server, [fromWord('plugin', config.words[0] ?? '.')]) // a server has at least one route
  } catch {
    return undefined // the failure to serve says it
  }
}
