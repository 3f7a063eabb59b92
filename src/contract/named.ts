import type { Contract } from './contract.ts'
import { openHttp } from './http.ts'
import { openRaw } from './raw.ts'
import { openSimplism } from './simplism.ts'

/** What the contracts read of a route's options. */
export interface ContractOptions {
  /** Of the answers, where the guest does not say. */
  readonly contentType?: string | undefined
}

/** Opens the contract of a route, by its name; one that somebody made is taken as it is. */
export function openContract(
  contract: 'raw' | 'http' | 'simplism' | Contract,
  options: ContractOptions,
): Contract {
  switch (contract) {
    case 'raw':
      return openRaw(options)
    case 'http':
      return openHttp(options)
    case 'simplism':
      return openSimplism(options)
    default:
      return contract
  }
}
