import type { BuiltPeers } from '../peers/build.ts'
import {
  bareHttp,
  type Floor,
  HELLO,
  HELLO_BODY,
  hello,
  noPlugin,
  ours,
  type Scenario,
  type ScenarioSet,
} from '../scenario.ts'

/** The same plug-in, body and connections on other servers. Those in other languages are there if they could be built. */
export function peersSet({ programs }: Pick<BuiltPeers, 'programs'>): ScenarioSet {
  const { fiber, axum } = programs
  const scenarios = [
    { ...noPlugin(HELLO_BODY), name: 'Fastify, echo' },
    { ...bareHttp(HELLO_BODY), name: 'node:http, echo' },
    ...(fiber ? [echo('Go Fiber, echo', fiber)] : []),
    ...(axum ? [echo('Rust axum, echo', axum)] : []),
    ours(OURS),
    ours('wasm-serve, 1 worker', '--workers', '1'),
    ours('wasm-serve, fresh', '--isolation', 'fresh'),
    foreign(hello('Fastify + Extism SDK, by hand', 'bench/servers/naive.js', '--from-path')),
    ...(axum ? [peer('Rust axum + Extism, pool', axum, 'pool', 'hello')] : []),
    ...(fiber
      ? [
          peer('Go Fiber + Extism, mutex', fiber, 'mutex'),
          peer('Go Fiber + Extism, pool', fiber, 'pool'),
          { ...peer('Go Fiber + Extism, fresh', fiber, 'fresh'), leastSeconds: 4 },
          peer('Go Fiber + Extism, fresh of compiled', fiber, 'compiled'),
        ]
      : []),
  ]
  return {
    name: 'peers',
    connections: [100],
    scenarios,
    compared: scenarios
      .filter((scenario) => scenario.name.includes('Extism'))
      .map((scenario) => [OURS, scenario.name] as const),
    floors: FLOORS.filter((floor) => scenarios.some(({ name }) => name === floor.to)),
  }
}

export const OURS = 'wasm-serve'

const FLOORS: readonly Floor[] = [
  { scenario: OURS, to: 'Fastify, echo', maxCpu: 1.15 },
  { scenario: OURS, to: 'node:http, echo', maxCpu: 1.35 },
  { scenario: OURS, to: 'Rust axum + Extism, pool', maxCpu: 0.7 },
  { scenario: OURS, to: 'Rust axum + Extism, pool', minRate: 1 },
  { scenario: OURS, to: 'Go Fiber + Extism, mutex', maxCpu: 0.4 },
  { scenario: OURS, to: 'Go Fiber + Extism, mutex', minRate: 2 },
]

/** Servers in other languages that start as ours does, with instances ready. */
export function nativeServers({ fiber, axum }: BuiltPeers['programs']): Scenario[] {
  return [
    ...(fiber ? [peer('Go Fiber + Extism, pool', fiber, 'pool')] : []),
    ...(axum ? [peer('Rust axum + Extism, pool', axum, 'pool', 'hello')] : []),
  ]
}

/** One instance for overlapping calls: the first attempt of the article's author. */
export function unlocked(fiber: string): Scenario {
  return peer(UNLOCKED, fiber, 'shared')
}

export const UNLOCKED = 'Go Fiber + Extism, shared without a lock'

function peer(name: string, program: string, form: string, ...args: string[]): Scenario {
  return foreign({ ...hello(name), command: [program, form, HELLO, ...args] })
}

function echo(name: string, program: string): Scenario {
  return foreign({ ...noPlugin(HELLO_BODY), name, command: [program, 'echo'] })
}

function foreign(scenario: Scenario): Scenario {
  return { ...scenario, mayFail: true }
}
