import { isCommitted, plugins, taskOf, wasmPath } from '../../plugins/plugins.ts'
import { describeSteadyCountVowels, describeSteadyHello } from '../support/pdk.ts'
import { describePlugin } from '../support/plugin-tasks.ts'

for (const plugin of plugins.filter(isCommitted)) {
  if (['hello', 'count-vowels'].includes(taskOf(plugin))) describePlugin(plugin, wasmPath(plugin))
}

for (const plugin of plugins.filter(({ folder }) => ['hello', 'hello-tinygo'].includes(folder))) {
  describeSteadyHello(plugin.folder, wasmPath(plugin))
}

for (const plugin of plugins.filter((each) => isCommitted(each) && taskOf(each) === 'count-vowels')) {
  describeSteadyCountVowels(plugin.folder, wasmPath(plugin))
}
