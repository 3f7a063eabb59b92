import { HELLO_BODY, hello, noPlugin, ours, type ScenarioSet } from '../scenario.ts'

/** The experiment of "WASM Microservices with Extism and Fiber", on Node. */
export const article: ScenarioSet = {
  name: 'article',
  connections: [1, 100],
  scenarios: [
    noPlugin(HELLO_BODY),
    hello('naive', 'bench/servers/naive.js'),
    hello('naive, from path', 'bench/servers/naive.js', '--from-path'),
    ours('one instance'),
  ],
  compared: [
    ['one instance', 'naive'],
    ['one instance', 'naive, from path'],
  ],
}
