import { expect } from 'vitest'
import type { RouteOptions } from '../../src/options/options.ts'
import { guest } from './guest.ts'

/** Far beyond every limit of the server: a request that takes so long hangs. */
const HANG_MS = 25_000

/** The outcome of a request. */
export interface Outcome {
  readonly status: number
  /** The code of a failure caused by the server; undefined if the guest answered or returned an error. */
  readonly code: string | undefined
  readonly body: string
}

/** Sends a POST. @throws if it hangs, or the connection breaks. */
export async function ask(url: string, body: string): Promise<Outcome> {
  const reply = await fetch(url, { method: 'POST', body, signal: AbortSignal.timeout(HANG_MS) })
  const text = await reply.text()
  const isProblem = reply.headers.get('content-type') === 'application/problem+json'
  return { status: reply.status, code: isProblem ? JSON.parse(text).code : undefined, body: text }
}

/** Routes that a fault elsewhere must not touch. */
export const BYSTANDERS = ['/threads', '/inline'] as const

export function bystanderRoutes(): RouteOptions[] {
  return [
    { url: '/threads', plugin: guest('echo'), workers: 1, timeoutMs: 20_000 },
    { url: '/inline', plugin: guest('echo') },
  ]
}

/** Calls that must be answered, each with its own body: on the route that has just failed, and on the others. */
export async function expectWell(origin: string, path: string): Promise<void> {
  for (const each of [path, ...BYSTANDERS]) {
    const body = `well ${serial++}` // zoo.wat and moody.wat echo it
    expect([each, await ask(origin + each, body)]).toEqual([each, { status: 200, code: undefined, body }])
  }
}

let serial = 0
