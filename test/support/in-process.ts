import { MessageChannel } from 'node:worker_threads'
import type { Deployments } from '../../src/deploy/deployments.ts'
import { type Channel, type LinkMessage, openLink } from '../../src/deploy/processes/link.ts'
import { answersOf, remoteSide, type SideRequests } from '../../src/deploy/processes/remote-side.ts'
import type { ProcessEnd, ServingProcess, StartProcess } from '../../src/deploy/processes/serving-process.ts'
import { openServed, serveBy, viewOf } from '../../src/deploy/serve-states.ts'
import type { PreparedRoutes } from '../../src/deploy/serving-side.ts'
import { ProcessEndedError } from '../../src/errors/errors.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { type HandedServer, openHandedServer } from '../../src/server/server.ts'

/** Two ends of a channel that copies messages, as an IPC channel does. */
export function openChannels(): readonly [Channel, Channel] {
  const { port1, port2 } = new MessageChannel()
  const channel = (port: typeof port1): Channel => ({
    send: (message) => port.postMessage(message),
    onMessage(listener) {
      port.on('message', (message: LinkMessage) => listener(message))
      port.unref()
    },
  })
  return [channel(port1), channel(port2)]
}

/** A serving process that runs in this one. */
export interface InProcess extends ServingProcess {
  /** Its deployments, once it is ready. */
  readonly deployments: Promise<Deployments>
  /** Ends it as a signal or an exit does. */
  end(how: Partial<ProcessEnd>): void
  /** Stops it, as SIGSTOP does: it reads no message and sends none. */
  freeze(): void
  /** Continues it. */
  thaw(): void
  /** Gives a sign of life, unless it is frozen or has ended. */
  giveSign(): void
}

/** Starts serving processes in this one. */
export function startHere() {
  const started: InProcess[] = []
  /** What the next processes do at their start. */
  const behavior: { start(number: number): Promise<void> | void } = { start: () => undefined }
  const start: StartProcess = (number, state, services) => {
    let finish: (end: ProcessEnd) => void = () => undefined
    const ended = new Promise<ProcessEnd>((resolve) => {
      finish = resolve
    })
    const [nearEnd, farEnd] = openChannels()
    let held: (() => void)[] | undefined
    const unlessFrozen = (act: () => void) => (held ? void held.push(act) : act())
    const freezable = ({ send, onMessage }: Channel): Channel => ({
      send: (message) => unlessFrozen(() => send(message)),
      onMessage,
    })
    const [near, far] = [freezable(nearEnd), freezable(farEnd)]
    const link = openLink<SideRequests, Record<string, never>>(near, {})
    const log = openLog('silent')
    let server: HandedServer | undefined
    const open = async () => {
      await behavior.start(number)
      const deployments = await openServed(structuredClone(state), {
        module: services.module,
        begin: () => ({ log }),
      })
      openLink<Record<string, never>, SideRequests>(
        far,
        answersOf(serveBy(deployments, state.revision), state.configuration),
      )
      const { options, app } = deployments.current
      server = openHandedServer(options, app, log, () => services.quiet(serving))
      deployments.follow(server)
      return deployments
    }
    const deployments = open()
    const ready = Promise.race([
      deployments.then(({ current }): PreparedRoutes => ({ routes: current.served.map(viewOf), kept: 0 })),
      ended.then((): never => {
        throw new ProcessEndedError(number, 'test')
      }),
    ])
    ready.catch(() => undefined)
    const end = ({ code = null, signal = null }: Partial<ProcessEnd>) => {
      held = []
      link.close(new ProcessEndedError(number, 'test'))
      finish({ code, signal })
      void deployments.then(
        async (opened) => {
          await opened.current.app.close()
          await opened.close()
        },
        () => undefined, // it did not start
      )
    }
    const serving: InProcess = {
      ...{ number, pid: started.length + 1, firstRevision: state.revision, ready, ended, deployments, end },
      side: remoteSide(link, state.configuration),
      beat: undefined,
      connections: 0,
      take: () => Promise.reject(new Error('a connection cannot be handed over within a process')),
      call: () => Promise.reject(new Error('not of this test')),
      meters: async () => [],
      lines: async () => [],
      mask: () => undefined,
      drain: () => unlessFrozen(() => void server?.drain().then(() => end({ code: 0 }))),
      freeze() {
        held ??= []
      },
      thaw() {
        const acts = held ?? []
        held = undefined
        for (const act of acts) act()
      },
      giveSign: () => unlessFrozen(() => services.beat(serving)),
      kill: () => end({ signal: 'SIGKILL' }),
    }
    started.push(serving)
    return serving
  }
  return { start, started, behavior }
}
