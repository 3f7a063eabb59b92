import type { FastifyReply, FastifyRequest } from 'fastify'
import { setCommonHeaders } from '../contract/common-headers.ts'
import type { CallObserver } from '../observe/observe.ts'
import type { CallHooks, FailedCall, GuestResult } from '../options/call-hooks.ts'
import type { ServedRoute } from '../options/served-route.ts'
import { type Calls, RequestCaller, type RunCall, sendFailure } from './route.ts'

/** Hooks of one kind, in the order in which they are called. */
export type RouteHooks = { readonly [Kind in keyof CallHooks]-?: readonly NonNullable<CallHooks[Kind]>[] }

/** The hooks of a route. @returns undefined if there are none. */
export function hooksOf(ofAll: CallHooks, own: CallHooks): RouteHooks | undefined {
  const both = [ofAll, own]
  const hooks = {
    onCall: both.flatMap(({ onCall }) => onCall ?? []),
    onResult: both.flatMap(({ onResult }) => onResult ?? []),
    onError: both.flatMap(({ onError }) => onError ?? []),
  }
  return Object.values(hooks).some(({ length }) => length > 0) ? hooks : undefined
}

/** As {@link runCalls}, with hooks around each call. Hooks that watch run when the answer is on its way. */
export function runHookedCalls(
  { exportName, contract, engine, observe }: Calls,
  { onCall, onResult, onError }: RouteHooks,
  route: ServedRoute,
): RunCall {
  const prepare = async (request: FastifyRequest): Promise<Uint8Array> => {
    let input = contract.input(request)
    for (const hook of onCall) input = replaced(await hook({ route, request, input })) ?? input
    return input
  }
  const run = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    setCommonHeaders(reply)
    let madeAt: number | undefined
    let observer: CallObserver | undefined
    const ms = () => (madeAt === undefined ? 0 : performance.now() - madeAt)
    try {
      const input = await prepare(request)
      madeAt = performance.now()
      observer = observe?.(request)
      const output = await engine.call(exportName, input, new RequestCaller(request, observer))
      observer?.returned()
      const result = { route, request, output, ms: ms() }
      contract.answer(output, reply)
      observer?.settled('ok')
      tell(onResult, result, 'onResult')
    } catch (thrown) {
      const failure = { route, request, error: sendFailure(thrown, reply, observer), ms: ms() }
      tell(onError, failure, 'onError')
    }
  }
  return (request, reply) => void run(request, reply)
}

/** @throws TypeError if a hook returned what no guest can take: to go on without a word would hide a mistake. */
function replaced(returned: unknown): Uint8Array | undefined {
  if (returned === undefined || returned instanceof Uint8Array) return returned
  throw new TypeError(`onCall must return bytes (a Uint8Array) or nothing, not ${typeof returned}`)
}

/** The answer is on its way, so no hook may touch it: what one throws is for the log. */
function tell<Told extends GuestResult | FailedCall>(
  hooks: readonly ((told: Told) => unknown)[],
  told: Told,
  name: string,
): void {
  for (const hook of hooks) {
    const failed = (error: unknown) => told.request.log.error({ err: error }, `the hook ${name} failed`)
    try {
      Promise.resolve(hook(told)).catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}
