import { noPluginOver, oursOver, type ScenarioSet } from '../scenario.ts'

/** What TLS and HTTP/2 cost, beside the same Fastify with the same certificate. */
export const transports: ScenarioSet = {
  name: 'transports',
  connections: [100],
  scenarios: [
    { ...noPluginOver('https'), name: 'Fastify, HTTPS' },
    { ...oursOver('https'), name: 'wasm-serve, HTTPS' },
    { ...noPluginOver('http2'), name: 'Fastify, HTTP/2' },
    { ...oursOver('http2'), name: 'wasm-serve, HTTP/2' },
  ],
  compared: [],
  floors: [
    { scenario: 'wasm-serve, HTTPS', to: 'Fastify, HTTPS', maxCpu: 1 },
    { scenario: 'wasm-serve, HTTP/2', to: 'Fastify, HTTP/2', maxCpu: 1 },
  ],
}
