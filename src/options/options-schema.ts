import type { Static, TObject, TSchema } from 'typebox'
import { loadSchema } from './schema/load.ts'
import type { WithDefault } from './schema/option.ts'
import { routeSchema } from './schema/route.ts'
import { serverSchema } from './schema/server.ts'
import { wasmServeSchema } from './schema/wasm-serve.ts'

/*
 * The only description of the options: types, defaults, checks, facts (`schema/facts.ts`), the published JSON schema, the flags and the
 * tables of docs/reference/options.md come from here. The build turns this module into plain data and plain types, so TypeBox is needed
 * neither to serve nor to use the types of the package.
 */

export { loadSchema, routeSchema, serverSchema, wasmServeSchema }

/** Options after the check, with defaults filled in. */
type WithDefaults<Schema extends TObject> = Static<Schema> & {
  [Key in keyof Schema['properties'] as Schema['properties'][Key] extends WithDefault
    ? Key
    : never]-?: Schema['properties'][Key] extends TSchema ? Static<Schema['properties'][Key]> : never
}

export type RouteData = Static<typeof routeSchema>
export type CheckedRouteData = WithDefaults<typeof routeSchema>
export type WasmServeData = Static<typeof wasmServeSchema>
export type CheckedWasmServeData = WithDefaults<typeof wasmServeSchema>
export type ServerData = Static<typeof serverSchema>
export type CheckedServerData = WithDefaults<typeof serverSchema>
export type LoadData = Static<typeof loadSchema>
export type CheckedLoadData = WithDefaults<typeof loadSchema>
