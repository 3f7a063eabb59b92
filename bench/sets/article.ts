import { noPlugin, type Scenario, type ScenarioSet } from '../scenario.ts'

const HELLO = 'plugins/hello/hello.wasm'
const BODY = '😄 Bob Morane'

/** The experiment of "WASM Microservices with Extism and Fiber", on Node. */
export const article: ScenarioSet = {
  name: 'article',
  connections: [1, 100],
  scenarios: [
    noPlugin(BODY),
    hello('naive', 'bench/servers/naive.js', HELLO),
    hello('naive, from path', 'bench/servers/naive.js', '--from-path', HELLO),
    hello('one instance', 'dist/cli.js', HELLO, '--port', '0'),
  ],
  compared: [
    ['one instance', 'naive'],
    ['one instance', 'naive, from path'],
  ],
}

function hello(name: string, ...args: string[]): Scenario {
  return {
    name,
    command: [process.execPath, ...args],
    path: '/',
    body: BODY,
    answer: (body) => `{"message":"🦀 Hello ${body}"}`,
  }
}
