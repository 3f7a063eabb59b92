import type { Contract } from '../../src/contract/contract.ts'
import { openRaw } from '../../src/contract/direct.ts'
import type { RouteOptions } from '../../src/index.ts'
import { guest } from './guest.ts'

const raw = openRaw({})

/** A route whose answer is what its guest got from a contract as its input. */
export function inputOf({ name, input }: Contract): RouteOptions {
  return { plugin: guest('echo'), contract: { name, input, answer: raw.answer } }
}

/** A route whose answer is what a contract makes of the body that is sent, as if a guest had produced it. */
export function answerOf({ name, answer }: Contract): RouteOptions {
  return { plugin: guest('echo'), contract: { name, input: raw.input, answer } }
}
