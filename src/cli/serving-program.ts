import '../platform/node-workarounds.ts' // before V8 collects

import type { Socket } from 'node:net'
import type { LinkMessage } from '../deploy/processes/link.ts'
import type { ConnectionHanded, ConnectionTaken } from '../deploy/processes/protocol.ts'
import { type ServingChannel, serveForPrimary } from '../deploy/processes/serve-for-primary.ts'
import { openTerminal } from './terminal.ts'

/** Node's IPC channel of a child process. Connections come with a message of their own, which is answered at once. */
function openChannel(): ServingChannel {
  let lastConnection = 0
  return {
    send(message) {
      if (process.connected) process.send?.(message)
    },
    onMessage(listener) {
      process.on('message', (message: LinkMessage | ConnectionHanded) => {
        if (!('connection' in message)) listener(message)
      })
    },
    onConnection(take) {
      process.on('message', (message: LinkMessage | ConnectionHanded, socket: Socket | undefined) => {
        if (!('connection' in message)) return
        lastConnection = message.connection
        const connections = socket ? take(socket) : 0 // its client may be gone
        process.send?.({ taken: message.connection, connections } satisfies ConnectionTaken)
      })
    },
    get lastConnection() {
      return lastConnection
    },
    onGone: (listener) => void process.once('disconnect', listener),
  }
}

process.stderr.on('error', () => undefined)
serveForPrimary({
  environment: process.env,
  logTerminal: process.stderr.isTTY ? openTerminal(process.stderr, process.env) : undefined,
  channel: openChannel(),
  exit: (code) => process.exit(code),
})
