import { MessageChannel } from 'node:worker_threads'
import { type LocalReplica, openLocalReplica } from '../../src/deploy/local-replica.ts'
import { type Channel, type LinkMessage, openLink } from '../../src/deploy/processes/link.ts'
import { answersOf, type ReplicaRequests, remoteReplica } from '../../src/deploy/processes/remote-replica.ts'
import type { ProcessEnd, ServingProcess, StartProcess } from '../../src/deploy/processes/serving-process.ts'
import { receivedConfiguration, receivedEdits } from '../../src/deploy/received-state.ts'
import { type PreparedRoutes, type ServedState, viewOf } from '../../src/deploy/replica.ts'
import type { FirstPlan } from '../../src/deploy/resolve.ts'
import { planFirst } from '../../src/deploy/start.ts'
import { ProcessEndedError } from '../../src/errors/errors.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { type HandedServer, openHandedServer } from '../../src/server/server.ts'

/** A channel of this process. */
interface LocalChannel extends Channel {
  /** Closes both ends. */
  close(): void
}

/** Two ends of a channel that copies messages, as an IPC channel does. */
export function openChannels(): readonly [LocalChannel, LocalChannel] {
  const { port1, port2 } = new MessageChannel()
  const channel = (port: typeof port1): LocalChannel => ({
    close: () => port.close(),
    send: (message) => port.postMessage(message),
    onMessage(listener) {
      port.on('message', (message: LinkMessage) => listener(message))
      port.unref()
    },
  })
  return [channel(port1), channel(port2)]
}

/** A serving process that runs in this one. */
interface InProcess extends ServingProcess {
  /** What it serves, once it is ready. */
  readonly local: Promise<LocalReplica>
  /** Ends it as a signal or an exit does. */
  end(how: Partial<ProcessEnd>): void
  /** Stops it, as SIGSTOP does: it reads no message and sends none. */
  freeze(): void
  /** Continues it. */
  thaw(): void
  /** Gives a sign of life, unless it is frozen or has ended. */
  giveSign(): void
}

/** A state that another process has read, resolved. @param module - Fetches its modules. */
export function planReceived(
  { revision, configuration, edits }: ServedState,
  module: (digest: string) => Promise<Uint8Array>,
): Promise<FirstPlan> {
  const planned = planFirst(
    receivedConfiguration(() => configuration),
    async () => receivedEdits(edits, module),
  )
  return planned.then((first) => ({ ...first, desired: { ...first.desired, revision } }))
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
    const link = openLink<ReplicaRequests, Record<string, never>>(near, {})
    const log = openLog('silent')
    let server: HandedServer | undefined
    const open = async () => {
      await behavior.start(number)
      const first = await planReceived(structuredClone(state), services.module)
      const { revision } = state
      const local = await openLocalReplica(first, { log, revision, start: services.start() })
      openLink<Record<string, never>, ReplicaRequests>(far, answersOf(local, state.configuration))
      server = openHandedServer(first.options, local.app, log, () => services.quiet(serving))
      local.follow(server)
      return local
    }
    const local = open()
    const ready = Promise.race([
      local.then(({ routes }): PreparedRoutes => ({ routes: routes.map(viewOf), kept: 0 })),
      ended.then((): never => {
        throw new ProcessEndedError(number, 'test')
      }),
    ])
    ready.catch(() => undefined)
    const end = ({ code = null, signal = null }: Partial<ProcessEnd>) => {
      held = []
      link.close(new ProcessEndedError(number, 'test'))
      nearEnd.close()
      finish({ code, signal })
      void local.then(
        async (opened) => {
          await opened.app.close()
          await opened.close()
        },
        () => undefined, // it did not start
      )
    }
    const serving: InProcess = {
      ...{ number, pid: started.length + 1, firstRevision: state.revision, ready, ended, local, end },
      replica: remoteReplica(link, state.configuration),
      beat: undefined,
      connections: 0,
      take: () => Promise.reject(new Error('a connection cannot be handed over within a process')),
      call: () => Promise.reject(new Error('not of this test')),
      meters: async () => [],
      lines: async () => [],
      mask: () => undefined,
      countRequests: async () => 0,
      cancelRequest: () => undefined,
      announce: () => undefined,
      askTask: async () => undefined,
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
