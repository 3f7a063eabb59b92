import { statSync } from 'node:fs'
import type { Engine } from '../engine/engine.ts'
import {
  AGENT_OPERATIONS,
  type HostOperations,
  kvOperations,
  STREAM_OPERATIONS,
  varOperations,
} from '../engine/workers/host-bridge.ts'
import type { BridgedService } from '../engine/workers/protocol.ts'
import { AllowedPathError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import type { Outbound } from '../guest/outbound/outbound.ts'
import { type KvClient, serveKv } from '../guest/store/kv.ts'
import { importsRequests } from '../guest/streams/stream-imports.ts'
import { START } from '../module/entry-points.ts'
import type { Log } from '../observe/log/guest-log.ts'
import type { OutboundResult, RouteMeter } from '../observe/metrics.ts'
import type { InstanceOptions, ResolvedRoute } from '../options/resolved-route.ts'
import type { Plugin } from '../plugin/plugin.ts'
import type { AllowedPath } from '../plugin/source/manifest.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import type { SharedVars } from './shared.ts'

/** Services of the host for a route's guests. They live on the main thread; worker threads send them requests. */
export interface HostParts {
  /** For instances on the main thread. */
  readonly direct: Pick<InstanceSettings, 'http' | 'vars'>
  readonly bridged: BridgedParts
  /** Serves the requests that the guests of an engine stream to other servers. @returns the engine to call. */
  readonly serveRequests: (engine: Engine) => Engine
  close(): Promise<void>
}

/** For threads: the available services, and the server that answers them. */
export interface BridgedParts {
  readonly names: readonly BridgedService[]
  readonly operations: HostOperations
}

/**
 * Opens the services that the route's options allow.
 *
 * @param kv - Its store, if it has one. Host functions use it on the main thread.
 * @param streams - The functions of streams that its guests import.
 * @param meter - Counts the operations, if metrics are enabled.
 */
export async function openHostParts(
  options: ResolvedRoute,
  plugin: Plugin,
  sharedVars: SharedVars,
  kv: KvClient | undefined,
  streams: readonly string[],
  meter?: RouteMeter,
): Promise<HostParts> {
  const http = await openRouteOutbound(options, streams.length > 0, meter)
  const shared = options.vars === 'shared' ? sharedVars.open(plugin, options.varMax) : undefined
  const vars = shared?.vars
  const isAgentic = options.contract === 'hyper-mcp'
  return {
    direct: { ...(http && { http: http.direct }), ...(vars && { vars }) },
    bridged: {
      names: [
        ...(http ? (['http'] as const) : []),
        ...(vars ? (['vars'] as const) : []),
        ...(kv ? (['kv'] as const) : []),
        ...(isAgentic ? (['agent'] as const) : []),
        ...(streams.length > 0 ? (['stream'] as const) : []),
      ],
      operations: {
        ...http?.operations,
        ...(vars && varOperations(vars)),
        ...(kv && kvOperations(kv)),
        ...(isAgentic && AGENT_OPERATIONS),
        ...(streams.length > 0 && STREAM_OPERATIONS),
      },
    },
    serveRequests: importsRequests(streams)
      ? await requestServer(options, http?.outbound)
      : (engine) => engine,
    async close() {
      shared?.close()
      await http?.close()
    },
  }
}

/** For the trial start of a guest in a thread: it uses a separate, empty store. */
export async function trialParts(
  { kv: { access } }: ResolvedRoute,
  { bridged }: HostParts,
): Promise<BridgedParts> {
  // No call runs, so these are not used.
  const others = bridged.names.filter((name) => name === 'agent' || name === 'stream')
  if (access === 'none' || !bridged.names.includes('kv'))
    return { names: others, operations: AGENT_OPERATIONS }
  const { openMemoryStore } = await import('../guest/store/memory.ts')
  const store = openMemoryStore({ maxBytes: TRIAL_STORE_BYTES })
  const kv = kvOperations(serveKv(store, { namespace: 'trial', access }))
  return { names: ['kv', ...others], operations: { ...kv, ...AGENT_OPERATIONS } }
}

/** Space for a few values of the maximum size. */
const TRIAL_STORE_BYTES = 4_194_304

/** Loaded on demand, for routes with an allowed host. */
async function openRouteOutbound(
  { outbound: where }: ResolvedRoute,
  isStreaming: boolean,
  meter: RouteMeter | undefined,
) {
  if (!where) return undefined
  const [{ openOutbound }, { directHttp, httpOperations }] = await Promise.all([
    import('../guest/outbound/outbound.ts'),
    import('./guest-http.ts'),
  ])
  const opened = openOutbound(where)
  const outbound = meter ? meterOutbound(opened, meter) : opened
  return {
    outbound,
    direct: directHttp(outbound, isStreaming),
    operations: httpOperations(outbound),
    close: () => outbound.close(),
  }
}

/** The result of a request that failed, by the code of the error. */
const RESULT_OF: Readonly<Record<string, OutboundResult>> = {
  WASM_SERVE_OUTBOUND_REQUEST_INVALID: 'invalid',
  WASM_SERVE_OUTBOUND_REFUSED: 'refused',
  WASM_SERVE_OUTBOUND_TIMEOUT: 'timeout',
  WASM_SERVE_OUTBOUND_TOO_LARGE: 'too_large',
}

/** Counts the results of the guests' HTTP requests. */
function meterOutbound(outbound: Outbound, meter: RouteMeter): Outbound {
  const countStatus = (status: number) =>
    meter.countOutbound(`${Math.floor(status / 100)}xx` as OutboundResult)
  const countError = (error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    meter.countOutbound(RESULT_OF[code] ?? 'failed')
  }
  return {
    async fetch(...request) {
      try {
        const response = await outbound.fetch(...request)
        countStatus(response.status)
        return response
      } catch (error) {
        countError(error)
        throw error
      }
    },
    open(...request) {
      try {
        const stream = outbound.open(...request)
        stream.done.then(countStatus, countError)
        return stream
      } catch (error) {
        countError(error)
        throw error
      }
    },
    close: () => outbound.close(),
  }
}

/** Loaded on demand, for plug-ins that stream requests. */
async function requestServer(
  { streamBuffer, streamIdleMs, streamTimeoutMs }: InstanceOptions,
  outbound: Outbound | undefined,
): Promise<HostParts['serveRequests']> {
  const { withGuestRequests } = await import('./streams/guest-requests.ts')
  const limits = { bufferBytes: streamBuffer, idleMs: streamIdleMs, timeoutMs: streamTimeoutMs }
  return (engine) => withGuestRequests(engine, { outbound, limits })
}

/**
 * The settings of a route's instances.
 *
 * @throws {@link AllowedPathError}
 */
export function instanceSettings(
  route: InstanceOptions,
  exportName: string,
  functions: HostFunctions | undefined,
  log: Log,
): InstanceSettings {
  const { config, wasi, env, allowedPaths, outputLimit, blockLimit, blockPages, varMax } = route
  return {
    config,
    wasi: wasi ? { env, allowedPaths: allowedPaths.map(usableFolder) } : undefined,
    outputLimit: outputLimit || blockLimit, // 0: a stream without a limit
    blockLimit,
    blockPages,
    functions,
    varMax,
    command: exportName === START,
    httpErrors: route.httpErrors,
    log,
    logRate: route.logRate,
  }
}

function usableFolder(path: AllowedPath): AllowedPath {
  const found = statSync(path.host, { throwIfNoEntry: false })
  if (found?.isDirectory()) return path
  throw new AllowedPathError(path.host, found ? 'it is not a folder' : 'the folder does not exist')
}
