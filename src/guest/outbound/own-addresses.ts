import type { BlockList } from 'node:net'
import { networkInterfaces } from 'node:os'
import { addressList } from './address.ts'

/** How long the addresses of the interfaces are remembered, in ms: to list them takes tens of microseconds. */
const REMEMBERED_MS = 1_000

/**
 * The addresses of this machine, public ones too: what listens on all interfaces is reached by each of them.
 *
 * @param list - Default: those of all network interfaces. An address that a router or a cloud translates to one of these
 * (NAT) is not among them.
 * @param now - In ms.
 * @returns a function that gives those of the present, or of a second ago.
 */
export function ownAddresses(
  list: () => readonly string[] = interfaceAddresses,
  now: () => number = () => performance.now(),
): () => BlockList {
  let known: BlockList | undefined
  let at = 0
  return () => {
    const time = now()
    if (!known || time - at >= REMEMBERED_MS) {
      known = addressList(list())
      at = time
    }
    return known
  }
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address))
}
