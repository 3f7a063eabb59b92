import { readFileSync } from 'node:fs'
import { isObject } from '../../platform/json-text.ts'
import { packageFile } from '../../platform/packages.ts'

/** What a new project is for. It is the same in each language: routes, test and README. */
interface PurposeFacts {
  /** For lists. */
  readonly about: string
  /** The routes of its configuration, without their plug-in. */
  readonly routes: readonly string[]
  /** Commands that try the project while it is served. */
  readonly tries: readonly string[]
  /** The function that `wasm-serve call` tries, too. */
  readonly called?: boolean
  /** Packages that it needs besides wasm-serve, in the versions that wasm-serve names. */
  readonly packages?: readonly string[]
}

const GREETER: PurposeFacts = {
  about: 'a function that greets',
  routes: ['url: /'],
  tries: ['curl http://127.0.0.1:8080/ -d Bob'],
  called: true,
}

/** The purposes of new projects by their names on the command line. Each but `tool` has a folder in `plugins/templates`. */
export const PURPOSES = {
  hello: GREETER,
  http: {
    about: 'a page: the guest gets each request, and sets status and headers',
    routes: ["url: /*\n    method: '*'\n    contract: http"],
    tries: ["curl 'http://127.0.0.1:8080/?name=Bob'"],
  },
  kv: {
    about: 'a counter, kept in the store',
    routes: ['url: /'],
    tries: ['curl http://127.0.0.1:8080/ -d Bob'],
    called: true,
  },
  stream: {
    about: 'a body in capitals while it arrives, and server-sent events',
    routes: ['url: /\n    function: capitals', 'url: /events\n    method: GET\n    function: count'],
    tries: [
      'curl -N --data-binary @README.md http://127.0.0.1:8080/',
      'curl -N http://127.0.0.1:8080/events',
    ],
  },
  websocket: {
    about: 'a connection that has a state',
    routes: ['url: /\n    contract: websocket'],
    tries: ['npx wscat --connect ws://127.0.0.1:8080/    # type numbers'],
    packages: ['@fastify/websocket', 'ws'],
  },
  tool: { ...GREETER, about: 'hello with a schema, a tool for agents (MCP), too' },
} as const satisfies Readonly<Record<string, PurposeFacts>>

export type Purpose = keyof typeof PURPOSES

/** The names of all purposes, the default first. */
export const TEMPLATES = Object.keys(PURPOSES) as readonly Purpose[]

export function purposeFacts(purpose: Purpose): PurposeFacts {
  return PURPOSES[purpose]
}

/** The folder of `plugins/templates` for a purpose. */
export function templateOf(purpose: Purpose): Exclude<Purpose, 'tool'> {
  return purpose === 'tool' ? 'hello' : purpose
}

/** The versions of packages that this package is developed with. */
export function versionsOf(names: readonly string[]): Readonly<Record<string, string>> {
  const manifest: unknown = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'))
  const versions = isObject(manifest) && isObject(manifest.devDependencies) ? manifest.devDependencies : {}
  return Object.fromEntries(names.map((name) => [name, String(versions[name] ?? '*')]))
}
