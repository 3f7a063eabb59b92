import { isCommitted, plugins, taskOf, wasmPath } from '../../plugins/plugins.ts'
import { describePlugin } from '../support/plugin-tasks.ts'

for (const plugin of plugins.filter(isCommitted)) {
  if (!['hello', 'count-vowels'].includes(taskOf(plugin))) describePlugin(plugin, wasmPath(plugin)) // pdk.test.ts
}
