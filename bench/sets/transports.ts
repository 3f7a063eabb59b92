import { findPeers } from '../peers/build.ts'
import {
  CERTIFICATE,
  HELLO,
  HELLO_BODY,
  hello,
  KEY,
  noPlugin,
  noPluginOver,
  oursOver,
  type Scenario,
  type ScenarioSet,
} from '../scenario.ts'

const { axum } = findPeers()

/** What TLS and HTTP/2 cost, beside the same Fastify with the same certificate, and beside axum with rustls if it is built. */
export const transports: ScenarioSet = {
  name: 'transports',
  connections: [100],
  scenarios: [
    { ...noPluginOver('https'), name: 'Fastify, HTTPS' },
    { ...oursOver('https'), name: 'wasm-serve, HTTPS' },
    ...(axum ? axumOverTls(axum) : []),
    { ...noPluginOver('http2'), name: 'Fastify, HTTP/2' },
    { ...oursOver('http2'), name: 'wasm-serve, HTTP/2' },
  ],
  compared: [],
  floors: [
    { scenario: 'wasm-serve, HTTPS', to: 'Fastify, HTTPS', maxCpu: 1 },
    { scenario: 'wasm-serve, HTTPS', to: 'Rust axum + Extism, HTTPS', maxCpu: 1 },
    { scenario: 'wasm-serve, HTTP/2', to: 'Fastify, HTTP/2', maxCpu: 1 },
  ],
}

/** Of HTTP/1.1 only. */
function axumOverTls(axum: string): Scenario[] {
  const serve = (...args: string[]) => [axum, 'tls', CERTIFICATE, KEY, ...args] as const
  return [
    { ...noPlugin(HELLO_BODY), name: 'Rust axum, HTTPS', command: serve('echo'), mayFail: true },
    { ...hello('Rust axum + Extism, HTTPS'), command: serve('pool', HELLO, 'hello'), mayFail: true },
  ]
}
