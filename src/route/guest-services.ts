import { statSync } from 'node:fs'
import type { Engine } from '../engine/engine.ts'
import { AllowedPathError } from '../errors/errors.ts'
import type { HostFunctions } from '../guest/host-functions.ts'
import type { RouteHttp } from '../guest/outbound/guest-http.ts'
import type { Outbound } from '../guest/outbound/outbound.ts'
import { importsOf, type ServiceUse } from '../guest/services/service.ts'
import { type OpenServices, openServices } from '../guest/services/services.ts'
import { stream } from '../guest/services/stream.ts'
import { importsRequests } from '../guest/streams/stream-imports.ts'
import { START } from '../module/entry-points.ts'
import type { OutboundResult } from '../observe/counters.ts'
import type { Log } from '../observe/log/guest-log.ts'
import type { RouteMeter } from '../observe/metrics.ts'
import type { InstanceOptions, ResolvedRoute } from '../options/resolved-route.ts'
import type { AllowedPath } from '../plugin/source/manifest.ts'
import type { InstanceSettings } from '../runtime/runtime.ts'
import type { AppResources } from './app-resources.ts'

/** The services of the host for a route's guests. */
export interface GuestServices extends Omit<OpenServices, 'close'> {
  /** Serves the requests that the guests of an engine stream to other servers. @returns the engine to call. */
  readonly serveRequests: (engine: Engine) => Engine
  close(): Promise<void>
}

/**
 * Opens the services that the route's guests use.
 *
 * @param meter - Counts the operations, if metrics are enabled.
 * @throws the errors of {@link openServices}.
 */
export async function openGuestServices(
  options: ResolvedRoute,
  use: ServiceUse,
  { store, vars }: Pick<AppResources, 'store' | 'vars'>,
  meter: RouteMeter | undefined,
): Promise<GuestServices> {
  const streams = importsOf(stream, use)
  const http = await openRouteHttp(options, streams.length > 0, meter)
  try {
    const services = await openServices(use, { store, vars, http, meter })
    return {
      serveRequests: importsRequests(streams)
        ? await requestServer(options, http?.outbound)
        : (engine) => engine,
      ...services,
      async close() {
        services.close()
        await http?.outbound.close()
      },
    }
  } catch (error) {
    await http?.outbound.close()
    throw error
  }
}

/** Loaded on demand, for routes with an allowed host. */
async function openRouteHttp(
  { outbound: where }: ResolvedRoute,
  isStreaming: boolean,
  meter: RouteMeter | undefined,
): Promise<RouteHttp | undefined> {
  if (!where) return undefined
  const [{ openOutbound }, { routeHttp }] = await Promise.all([
    import('../guest/outbound/outbound.ts'),
    import('./guest-http.ts'),
  ])
  const opened = openOutbound(where)
  return routeHttp(meter ? meterOutbound(opened, meter) : opened, isStreaming)
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
): Promise<GuestServices['serveRequests']> {
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
  const { config, wasi, env, allowedPaths, outputLimit, blockLimit, blockPages, varMax, budget } = route
  return {
    config,
    wasi: wasi ? { env, allowedPaths: allowedPaths.map(usableFolder) } : undefined,
    outputLimit: outputLimit || blockLimit, // 0: a stream without a limit
    blockLimit,
    blockPages,
    functions,
    varMax,
    budget,
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
