import { HELLO_BODY, noPlugin, ours, oursInC, oursInScript, type ScenarioSet } from '../scenario.ts'

/** What a request costs that reaches a guest, beside requests that reach none. */
export const http: ScenarioSet = {
  name: 'http',
  connections: [100],
  scenarios: [
    noPlugin(HELLO_BODY),
    {
      ...noPlugin(HELLO_BODY),
      name: 'bare node:http',
      command: [process.execPath, 'bench/servers/node-http.js'],
    },
    ours('kernel'),
    ours('sdk', '--runtime', 'sdk'),
    ours('kernel, fresh', '--isolation', 'fresh'),
    oursInC('kernel, C'),
    oursInC('kernel, C, fresh', '--isolation', 'fresh'),
    oursInScript('kernel, QuickJS'),
    oursInScript('kernel, QuickJS, fresh', '--isolation', 'fresh'),
  ],
  compared: [],
  floors: [
    { scenario: 'kernel', to: 'no plug-in', maxCpu: 1.15 },
    { scenario: 'kernel', to: 'bare node:http', maxCpu: 1.25 },
    { scenario: 'kernel', to: 'sdk', maxCpu: 0.8 },
    { scenario: 'kernel, fresh', to: 'kernel', maxCpu: 1.25 },
    { scenario: 'kernel, QuickJS, fresh', to: 'kernel, QuickJS', maxCpu: 3 },
  ],
}
