import { MessageChannel } from 'node:worker_threads'
import { onTestFinished } from 'vitest'
import { type Channel, type LinkMessage, openLink } from '../../src/deploy/processes/link.ts'
import { answersOf, remoteSide, type SideRequests } from '../../src/deploy/processes/remote-side.ts'
import { type OpenSide, openLocalSide, testServingSide } from '../support/serving-side-suite.ts'

/** Two ends of a channel that copies messages, as an IPC channel does. */
function openChannels(): readonly [Channel, Channel] {
  const { port1, port2 } = new MessageChannel()
  onTestFinished(() => port1.close())
  const channel = (port: typeof port1): Channel => ({
    send: (message) => port.postMessage(message),
    onMessage: (listener) => void port.on('message', (message: LinkMessage) => listener(message)),
  })
  return [channel(port1), channel(port2)]
}

const openLinkedSide: OpenSide = async (state, module) => {
  const local = await openLocalSide(state, module)
  const [near, far] = openChannels()
  openLink<Record<string, never>, SideRequests>(far, answersOf(local.side, state.configuration))
  const link = openLink<SideRequests, Record<string, never>>(near, {})
  return { ...local, side: remoteSide(link, state.configuration) }
}

testServingSide('of this process', openLocalSide)
testServingSide('at the other end of a link', openLinkedSide)
