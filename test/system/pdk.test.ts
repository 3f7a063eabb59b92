import { isCommitted, plugins, taskOf, wasmPath } from '../../plugins/plugins.ts'
import { describeSteadyCountVowels, describeSteadyHello } from '../support/pdk.ts'

for (const plugin of plugins.filter(({ folder }) => ['hello', 'hello-tinygo'].includes(folder))) {
  describeSteadyHello(plugin.folder, wasmPath(plugin))
}

for (const plugin of plugins.filter((each) => isCommitted(each) && taskOf(each) === 'count-vowels')) {
  describeSteadyCountVowels(plugin.folder, wasmPath(plugin))
}
