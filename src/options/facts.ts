import { loadSchema, routeSchema, serverSchema } from './options-schema.ts'
import type { OptionFacts } from './schema/facts.ts'
import { schemasOf } from './schema.ts'

/* Lists of options: filters of the facts in the schemas. They are made when modules load, and no request reads them. */

const SCHEMAS = { route: routeSchema, load: loadSchema, server: serverSchema } as const

/** Options of each route, of loading plug-ins, or of the server. */
export type OptionScope = keyof typeof SCHEMAS

/** The names of the options whose facts pass a test, in the order of the schema. */
export function optionsWhere(
  scope: OptionScope,
  isWanted: (facts: OptionFacts) => boolean | undefined,
): ReadonlySet<string> {
  const all = Object.entries(schemasOf(SCHEMAS[scope]))
  return new Set(all.filter(([, { facts = {} }]) => isWanted(facts)).map(([name]) => name))
}

/** The option that causes a failure, by the code of the failure. */
export function optionsByError(scope: OptionScope): ReadonlyMap<string, string> {
  const all = Object.entries(schemasOf(SCHEMAS[scope]))
  return new Map(
    all.flatMap(([name, { facts }]) => (facts?.errors ?? []).map((code) => [code, name] as const)),
  )
}

/** Options that a reload cannot change: those of sockets, stores, threads and folders of the process. */
export const RESTART_OPTIONS: ReadonlySet<string> = new Set([
  ...optionsWhere('server', ({ reach = 'process' }) => reach === 'process'),
  ...optionsWhere('load', ({ reach = 'process' }) => reach === 'process'),
])

type RouteProperties = (typeof routeSchema)['properties']

/** The options of a route that have these facts, as a type. */
type RouteOptionWith<Facts extends OptionFacts> = {
  [Name in keyof RouteProperties]: RouteProperties[Name] extends { facts: Facts } ? Name : never
}[keyof RouteProperties]

/** Options of a route that never reach an instance. */
export type AnswerOption = RouteOptionWith<{ reach: 'answer' | 'document' }>

/** Options of a route for which its plug-in is loaded. */
export type LoadOption = RouteOptionWith<{ reach: 'load' }>

/** Limits that only a plug-in that streams can do without. */
type StreamLimit = RouteOptionWith<{ zero: 'streams' }>

export const STREAM_LIMITS = [
  ...optionsWhere('route', ({ zero }) => zero === 'streams'),
] as readonly StreamLimit[]
