/** One server under load, with its requests. */
export interface Scenario {
  readonly name: string
  /** Starts the server; it prints `listens on URL` when it does. Relative paths are from the repository's root. */
  readonly command: readonly [program: string, ...args: string[]]
  /** Below the server's URL. */
  readonly path: string
  /** Asked in turns under load, instead of `path`. */
  readonly paths?: readonly string[]
  /** Default: {@link REQUEST_HEADERS}. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
  /** What is sent for a body. Default: the body. */
  encode?(body: string): string
  /** The right answer to a body. */
  answer(body: string): string
  /** For guests whose answers to equal bodies differ. By default the answer has to be equal to `answer`. */
  isRight?(body: string, answer: string): boolean
  /** Whether its clients use HTTP/2; then the load generator is that of `load/http2.ts`. */
  readonly isHttp2?: boolean
  /** The least length of a run, for slow servers. */
  readonly leastSeconds?: number
  /** Whether failures are counted and shown, because the server is not part of this project; otherwise a failure ends the bench. */
  readonly mayFail?: boolean
}

export function isRight(scenario: Scenario, body: string, answer: string): boolean {
  return scenario.isRight?.(body, answer) ?? answer === scenario.answer(body)
}

/** Scenarios that are measured together, interleaved, and shown in one table. */
export interface ScenarioSet {
  readonly name: string
  /** The default of the command line. */
  readonly connections: readonly number[]
  /** The first is the baseline of the others. */
  readonly scenarios: readonly Scenario[]
  /** Pairs of names that get a sentence of comparison. */
  readonly compared: readonly (readonly [better: string, worse: string])[]
  /** Limits that the medians have to keep. */
  readonly floors?: readonly Floor[]
}

/** A limit of one scenario: its CPU per request or its requests/s, in relation to another's of the same run. */
export type Floor =
  | { readonly scenario: string; readonly to: string; readonly maxCpu: number }
  | { readonly scenario: string; readonly to: string; readonly minRate: number }

export const REQUEST_HEADERS = { 'content-type': 'text/plain; charset=utf-8' }

/** The reference of every set: the same Fastify with no guest, so that our cost is the difference. */
export function noPlugin(body: string): Scenario {
  return {
    name: 'no plug-in',
    command: [process.execPath, 'bench/servers/no-plugin.js'],
    path: '/',
    body,
    answer: (body) => body,
  }
}

/** The reference with TLS. */
export function noPluginOver(transport: 'https' | 'http2'): Scenario {
  const { command, ...scenario } = noPlugin(HELLO_BODY)
  const isHttp2 = transport === 'http2'
  return { ...scenario, command: [...command, transport, CERTIFICATE, KEY], isHttp2 }
}

/** hello.wasm with TLS. */
export function oursOver(transport: 'https' | 'http2'): Scenario {
  const isHttp2 = transport === 'http2'
  const flags = ['--tls-cert', CERTIFICATE, '--tls-key', KEY, ...(isHttp2 ? ['--http2'] : [])]
  return { ...ours('wasm-serve', ...flags), isHttp2 }
}

/** For localhost, made for the tests. */
export const CERTIFICATE = 'test/support/tls/cert.pem'
export const KEY = 'test/support/tls/key.pem'

/** A bare HTTP server, without Fastify. */
export function bareHttp(body: string): Scenario {
  return {
    ...noPlugin(body),
    name: 'bare node:http',
    command: [process.execPath, 'bench/servers/node-http.js'],
  }
}

export const HELLO = 'plugins/hello/hello.wasm'

export const HELLO_BODY = '😄 Bob Morane'

/** A server of the bench that runs hello.wasm, whose path follows `args`. */
export function hello(name: string, ...args: string[]): Scenario {
  return greeter(name, HELLO, args)
}

function greeter(name: string, plugin: string, args: readonly string[]): Scenario {
  return {
    name,
    command: [process.execPath, ...args, plugin],
    path: '/',
    body: HELLO_BODY,
    answer: (body) => `{"message":"🦀 Hello ${body}"}`,
  }
}

/** The built command with its default settings and `flags`. */
export function ours(name: string, ...flags: string[]): Scenario {
  return hello(name, ...COMMAND, ...flags)
}

/** The same with flags of Node.js. */
export function withNodeFlags(flags: readonly string[], scenario: Scenario): Scenario {
  const [program, ...args] = scenario.command
  return { ...scenario, command: [program, ...flags, ...args] }
}

/** Preloads a module that ends a server without a handler of signals. */
export const END_ON_SIGNAL = ['--require', './bench/servers/end-on-signal.cjs']

/** A server with the hello.wasm that was written in C: it answers the same, and does not grow its memory. */
export function oursInC(name: string, ...flags: string[]): Scenario {
  return greeter(name, 'plugins/hello-c/hello.wasm', [...COMMAND, ...flags])
}

/** A server with a script that answers the same. QuickJS runs it. */
export function oursInScript(name: string, ...flags: string[]): Scenario {
  return greeter(name, 'bench/guests/hello.js', [...COMMAND, ...flags])
}

/**
 * The command with a guest that echoes.
 *
 * @param plugin - Its path, assembled.
 * @param body - Its first letter selects the first action of `guests/moods.wat`.
 */
export function echoing(name: string, plugin: string, body: string, ...flags: string[]): Scenario {
  return {
    name,
    command: [process.execPath, ...COMMAND, ...flags, plugin],
    path: '/',
    body,
    answer: (body) => body,
  }
}

/** The command line of the built command; plug-ins and flags follow. */
export const COMMAND = ['dist/cli.js', '--port', '0']

/** The command before it is bundled. */
export const UNBUNDLED = ['lib/cli.js', '--port', '0']

/** hello.wasm with its default settings, with a route beside it whose guest streams. */
export const besideStreams: Scenario = {
  ...ours('beside a route that streams'),
  command: [process.execPath, ...COMMAND, '-c', 'bench/servers/beside-streams.json'],
}
