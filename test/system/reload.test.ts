import { expect, test } from 'vitest'
import { openLog } from '../../src/observe/log/log.ts'
import { checkServerOptions } from '../../src/options/options.ts'
import { createApp } from '../../src/server/app.ts'
import { guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { listen } from '../support/serve.ts'

/** An app to put in the place of another. */
async function appOf(name: string) {
  const options = checkServerOptions({ logLevel: 'silent', routes: [{ plugin: guest(name) }] })
  const { app } = await createApp(options, openLog('silent'))
  return app
}

test('while apps are swapped under load, every request gets its own answer', async () => {
  const server = await listen({ plugin: guest('echo') })
  const load = startLoad({
    url: server.url,
    body: (id) => `id ${id}`,
    isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
  })
  for (let swap = 0; swap < 20; swap++) {
    const [next] = await Promise.all([appOf(swap % 2 === 0 ? 'upper' : 'echo'), load.answered(100)])
    await server.replace(next)
  }
  await load.answered(100)
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
})
