import { expect, test } from 'vitest'
import { openPage } from '../support/browser.ts'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'
import { serveSteps } from '../support/stream-guest.ts'
import { describeWith } from '../support/tools.ts'

/** An empty page of an origin. */
async function openBlank(origin: string) {
  const { page } = await openPage(origin)
  await page.route('**/blank', (route) => route.fulfill({ contentType: 'text/html', body: '' }))
  await page.goto(`${origin}/blank`)
  return page
}

describeWith(['chromium'], () => {
  test('an EventSource that reconnects gets each event once: after an end, and after an answer that broke off', async () => {
    const route = {
      plugin: guest('resume'),
      url: '/events',
      method: 'GET',
      contract: 'http',
      workers: 1,
    } as const
    const { url } = await listen(route)
    const page = await openBlank(url)
    const seen = await page.evaluate(
      () =>
        new Promise<{ events: string[]; opened: number }>((resolve) => {
          const events: string[] = []
          let opened = 0
          const source = new EventSource('/events')
          source.addEventListener('open', () => opened++)
          source.addEventListener('message', ({ lastEventId, data }) =>
            events.push(`${lastEventId}: ${data}`),
          )
          source.addEventListener('error', () => {
            if (source.readyState === EventSource.CLOSED) resolve({ events, opened })
          })
        }),
    )
    expect(seen).toEqual({
      events: Array.from({ length: 9 }, (_, i) => `${i + 1}: event ${i + 1}`),
      opened: 3,
    })
  })

  test('an EventSource gets an event while the guest waits, and a page that is closed is noticed', async () => {
    const { url, codes, line } = await serveSteps([
      ['sse', '{"event":"tick","data":{"n":1}}'],
      ['wait', 60_000],
    ])
    const page = await openBlank(url)
    const data = await page.evaluate(
      () =>
        new Promise((resolve) => {
          new EventSource('/').addEventListener('tick', ({ data }) => resolve(data))
        }),
    )
    expect(data).toBe('{"n":1}')
    await page.close()
    expect(await codes(2)).toEqual([0, -1])
    await line(({ code }) => code === 'WASM_SERVE_CLIENT_GONE')
  })
})
