import { KEPT_REVISIONS, testFleetStore } from '../../support/fleet-store-suite.ts'
import { MemoryFleet } from '../../support/memory-fleet.ts'

testFleetStore('the store of the model tests', () => {
  const fleet = new MemoryFleet(KEPT_REVISIONS)
  return async () => fleet.open()
})
