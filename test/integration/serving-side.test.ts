import { openLink } from '../../src/deploy/processes/link.ts'
import { answersOf, remoteSide, type SideRequests } from '../../src/deploy/processes/remote-side.ts'
import { openChannels } from '../support/in-process.ts'
import { type OpenSide, openLocalSide, testServingSide } from '../support/serving-side-suite.ts'

const openLinkedSide: OpenSide = async (state, module) => {
  const local = await openLocalSide(state, module)
  const [near, far] = openChannels()
  openLink<Record<string, never>, SideRequests>(far, answersOf(local.side, state.configuration))
  const link = openLink<SideRequests, Record<string, never>>(near, {})
  return { ...local, side: remoteSide(link, state.configuration) }
}

testServingSide('of this process', openLocalSide)
testServingSide('at the other end of a link', openLinkedSide)
