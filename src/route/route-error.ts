import { restoreError } from '../errors/failure.ts'
import { placed } from '../options/check-config.ts'
import type { ConfigMap } from '../options/config-node.ts'
import { type RoutePlace, routeLabel } from '../options/served-route.ts'

/** A route with the origins of its options, if it is from a configuration. */
export interface PlacedRoute extends RoutePlace {
  readonly origins?: ConfigMap | undefined
}

/** Adds the route to a failure to open it, and the line of the config file that asks for what failed. Once. */
export function blameRoute(error: unknown, route: PlacedRoute): unknown {
  if (!(error instanceof Error && 'code' in error) || blamed.has(error)) return error
  const options = OPTIONS_OF[String(error.code)]
  if (!options) return error
  const { cause = error } = error
  const label = NAMING.has(String(error.code)) ? '' : `Route ${routeLabel(route)}: `
  const named = restoreError(String(error.code), label + error.message, cause) ?? error
  const result = route.origins ? placed(named, route.origins, ...options, 'plugin') : named
  if (result instanceof Error) blamed.add(result)
  return result
}

/** Failures whose messages name the route. */
const NAMING: ReadonlySet<string> = new Set(['WASM_SERVE_ROUTE_INVALID', 'WASM_SERVE_SMOKE_FAILED'])

const blamed = new WeakSet<Error>()

/** The options that may cause a failure, by its code. Failures that are not of a route have none. */
const OPTIONS_OF: Readonly<Record<string, readonly string[]>> = {
  WASM_SERVE_ALLOWED_PATH_INVALID: ['allowedPaths'],
  WASM_SERVE_HOST_FUNCTION_ASYNC: ['functions'],
  WASM_SERVE_HOST_FUNCTION_INVALID: ['functions'],
  WASM_SERVE_INSTANCE_START_FAILED: [],
  WASM_SERVE_KV_ARGUMENT_INVALID: ['kv'],
  WASM_SERVE_PDK_OUTDATED: [],
  WASM_SERVE_PLUGIN_IMPORT_MISSING: [],
  WASM_SERVE_PLUGIN_INVALID: [],
  WASM_SERVE_PLUGIN_LOAD_FAILED: [],
  WASM_SERVE_PLUGIN_UNREADABLE: [],
  WASM_SERVE_ROUTE_INVALID: ['url'],
  WASM_SERVE_RUNTIME_UNFIT: ['runtime'],
  WASM_SERVE_SMOKE_FAILED: ['smoke'],
  WASM_SERVE_TOOL_EXPORT_MISSING: ['contract'],
  WASM_SERVE_TOOL_SCHEMA_INVALID: ['tool'],
  WASM_SERVE_WASI_DISABLED: ['wasi'],
}
