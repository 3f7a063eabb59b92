import type { Contract } from '../../src/contract/contract.ts'
import { openRaw } from '../../src/contract/direct.ts'
import type { RouteOptions } from '../../src/index.ts'
import { guest } from './guest.ts'

const raw = openRaw({})

/** A route that answers with the input that its guest got from a contract. */
export function inputOf({ name, input }: Contract): RouteOptions {
  return { plugin: guest('echo'), contract: { name, input, answer: raw.answer } }
}

/** A route that answers with the contract's conversion of the request body, as if a guest had produced it. */
export function answerOf({ name, answer }: Contract): RouteOptions {
  return { plugin: guest('echo'), contract: { name, input: raw.input, answer } }
}
