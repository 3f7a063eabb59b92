import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { guest } from '../support/guest.ts'

const run = promisify(execFile)

test('close during a call in a worker settles although nothing else keeps the process alive', async () => {
  const program = `
    import createPlugin from ${JSON.stringify(new URL('../../dist/extism.js', import.meta.url).href)}
    const plugin = await createPlugin(${JSON.stringify(guest('echo'))}, { runInWorker: true })
    await plugin.call('echo', 'x')
    const call = plugin.call('echo', 'x').catch(({ code }) => code)
    await plugin.close()
    console.log(await call, 'closed')`
  for (let round = 0; round < 5; round++) {
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program])
    expect(stdout).toMatch(/ closed\n$/)
  }
})
