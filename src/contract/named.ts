import type { Contract, ContractOptions } from './contract.ts'
import { openHttp } from './http.ts'
import { openRaw } from './raw.ts'
import { openSimplism } from './simplism.ts'

export type ContractName = 'raw' | 'http' | 'simplism'

/** Opens the contract of a route, by its name; one that somebody made is taken as it is. */
export function openContract(contract: ContractName | Contract, options: ContractOptions): Contract {
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
