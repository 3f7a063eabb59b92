import { expect, test } from 'vitest'
import { isCommitted, plugins, taskOf } from '../../plugins/plugins.ts'
import { compare, rebuild } from '../../plugins/rebuild.ts'
import { findToolchain } from '../../plugins/toolchains.ts'
import { describeSteadyCountVowels, describeSteadyHello } from '../support/pdk.ts'
import { describePlugin } from '../support/plugin-tasks.ts'

const found = new Map<object, string | undefined>()
for (const { toolchain } of plugins) {
  if (!found.has(toolchain)) found.set(toolchain, await findToolchain(toolchain))
}

for (const plugin of plugins) {
  const { folder, toolchain } = plugin
  const version = found.get(toolchain)
  if (version === undefined) {
    test.skip(`${folder} is not built: ${toolchain.name} is missing`)
    continue
  }
  const built = await rebuild(plugin)
  describePlugin({ ...plugin, folder: `${folder}, built here` }, built)
  if (isCommitted(plugin)) {
    test(`${folder} is built to the committed bytes again, if by what made those`, () => {
      expect(compare(plugin, built, version)).not.toBe('not as committed')
    })
  } else {
    if (taskOf(plugin) === 'hello') describeSteadyHello(folder, built)
    if (taskOf(plugin) === 'count-vowels') describeSteadyCountVowels(folder, built)
  }
}
