import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Locator } from 'playwright-core'
import { expect, test } from 'vitest'
import { startApi, TOKEN, temporaryFolder } from '../support/admin-api.ts'
import { openPage } from '../support/browser.ts'
import { start } from '../support/cli-process.ts'
import { faintTexts, namelessElements } from '../support/contrast.ts'
import { file, guest, guestBytes, moduleNumber } from '../support/guest.ts'
import { until } from '../support/processes.ts'
import { streamGuest } from '../support/stream-guest.ts'
import { describeWith } from '../support/tools.ts'

/** A server and its console, entered. */
async function enter(
  plugins: readonly string[],
  options: Parameters<typeof openPage>[1] = {},
  folder = temporaryFolder(),
) {
  const server = await startApi(start, plugins, folder)
  const { page, mishaps } = await openPage(server.adminUrl, options)
  await page.goto(`${server.adminUrl}/#token=${TOKEN}`)
  await page.getByRole('heading', { level: 1, name: 'Routes' }).waitFor()
  return { ...server, page, mishaps }
}

/** How many columns of a canvas have a pixel that is not transparent. */
function paintedColumns(canvas: Locator): Promise<number> {
  return canvas.evaluate((node) => {
    if (!(node instanceof HTMLCanvasElement)) return 0
    const { width, height } = node
    // Of a copy: Chromium warns who reads a canvas often.
    const copy = new OffscreenCanvas(width, height).getContext('2d')
    copy?.drawImage(node, 0, 0)
    const { data = [] } = copy?.getImageData(0, 0, width, height) ?? {}
    const isPainted = (column: number) =>
      Array.from({ length: height }, (_, row) => data[(row * width + column) * 4 + 3]).some(Boolean)
    return Array.from({ length: width }, (_, column) => column).filter(isPainted).length
  })
}

describeWith(['chromium'], () => {
  test('the token of the fragment is taken away and kept for the tab; a wrong one is refused in words', async () => {
    const { adminUrl } = await startApi(start, [guest('echo')])
    const { page, mishaps } = await openPage(adminUrl)
    await page.goto(`${adminUrl}/#token=${'x'.repeat(32)}`)
    await page.getByText('The server rejected this token.').waitFor()
    await page.getByLabel('Token').fill(TOKEN)
    await page.getByRole('button', { name: 'Open the console' }).click()
    await page.getByRole('link', { name: 'Call POST /' }).waitFor()
    expect(page.url()).not.toContain('token')
    await page.reload()
    await page.getByRole('link', { name: 'Call POST /' }).waitFor()
    await page.goto(`${adminUrl}/?#token=${TOKEN}`)
    await page.getByRole('link', { name: 'Call POST /' }).waitFor()
    expect(page.url()).not.toContain('token')
    expect(mishaps).toEqual([])
  })

  test('the address that is printed opens the console', async () => {
    const running = start([guest('echo'), '--port', '0', '--admin', '127.0.0.1:0'])
    await running.listening()
    const [, url = ''] = /console is on (\S+)/.exec(running.stderr()) ?? []
    const { page } = await openPage(new URL(url).origin)
    await page.goto(url)
    await page.getByRole('heading', { level: 1, name: 'Routes' }).waitFor()
    expect(new URL(page.url()).origin).toBe(new URL(url).origin)
  })

  test('it shows the numbers of each route, live', async () => {
    const { page, post, mishaps, child } = await enter([guest('echo'), guest('moody')])
    const rowOf = (path: string) =>
      page.getByRole('row').filter({ has: page.getByText(path, { exact: true }) })
    const cell = (path: string, label: string) => rowOf(path).locator(`[data-label="${label}"]`)
    for (const path of ['/echo', '/moody'])
      await expect.poll(() => cell(path, 'Memory').textContent()).toMatch(/KiB|MiB/)
    expect(await cell('/echo', 'p99').textContent()).toBe('–')
    for (let call = 0; call < 30; call++) await post('/echo', 'abc')
    await post('/moody', 'T')
    await expect.poll(() => cell('/echo', 'p99').textContent()).toMatch(/^[\d.]+ (µs|ms)$/)
    expect(Number(await cell('/echo', 'Requests/s').textContent())).toBeGreaterThan(1)
    await expect.poll(async () => Number(await cell('/moody', 'Failed/s').textContent())).toBeGreaterThan(0)
    expect(await cell('/echo', 'Failed/s').textContent()).toBe('0')
    expect(await cell('/echo', 'Calls').textContent()).toBe('30')
    await expect.poll(() => paintedColumns(rowOf('/echo').locator('canvas'))).toBeGreaterThan(0)
    child.kill('SIGKILL')
    await page.getByText('The server does not respond.').waitFor()
    expect(mishaps.filter((mishap) => !mishap.includes('ERR_CONNECTION_REFUSED'))).toEqual([])
  })

  test('it calls a function with text, JSON, base64 and a file, and shows answer and curl line', async () => {
    const { page, url, mishaps } = await enter([guest('echo'), '--url', '/echo/*'])
    await page.getByRole('link', { name: 'Call', exact: true }).click()
    const body = page.getByRole('textbox', { name: 'Body' })
    const answer = page.getByLabel('Response body')
    const curl = page.getByLabel('The same request with curl')
    const send = page.getByRole('button', { name: 'Send' })

    await page.getByLabel('Path and query').fill('/echo/a?b=c')
    await body.fill("it's <b>text</b> 😄")
    await send.click()
    await expect.poll(() => answer.textContent()).toBe("it's <b>text</b> 😄")
    expect(await page.locator('.status').textContent()).toMatch(/^200.*(µs|ms)21 B/)
    expect(await page.locator('.headers').textContent()).toContain('x-request-id')
    expect(await curl.textContent()).toBe(
      `curl -i '${url}/echo/a?b=c' -H 'content-type: text/plain; charset=utf-8' --data-raw 'it'\\''s <b>text</b> 😄'`,
    )

    await page.getByLabel('JSON').check()
    await body.fill('{"a":')
    await send.click()
    await page.getByText('This is not JSON').waitFor()
    await body.fill('{"a":1}')
    await send.click()
    await expect.poll(() => answer.textContent()).toBe('{\n  "a": 1\n}')

    await page.getByLabel('Base64').check()
    await body.fill('AP8Q')
    await send.click()
    await expect.poll(() => answer.textContent()).toBe('000000  00 ff 10')
    expect(await curl.textContent()).toMatch(/^printf %s AP8Q \| base64 -d \| curl -i .* --data-binary @-$/)

    await page.getByLabel('File').check()
    await page.locator('#body-file').setInputFiles(file('letter.txt', 'from a file'))
    await send.click()
    await expect.poll(() => answer.textContent()).toBe('from a file')
    expect(await curl.textContent()).toContain('--data-binary @letter.txt')
    await page.getByLabel('Text').check()
    await page.getByLabel('File').check() // the file is chosen still
    const name = await page.locator('#body-file').inputValue()
    expect([name, await curl.textContent()]).toEqual([
      expect.stringContaining('letter.txt'),
      expect.stringContaining('@letter.txt'),
    ])
    expect(mishaps).toEqual([])
  })

  test('it shows a streamed answer as it comes, and sends a file as a stream', async () => {
    const steps = [
      ['start', '{"headers":{"content-type":"text/plain"},"trailers":["x-sum"]}'],
      ['write', 'first äö'],
      ['flush'],
      ['read', 100],
      ['wait', 60_000],
    ] as const
    const { page, mishaps, stderr } = await enter([
      guest('stream'),
      file('steps.wasm', streamGuest(...steps)),
      file('events.wasm', streamGuest(['sse', '{"event":"tick","id":"7","data":"one"}'], ['wait', 60_000])),
      ...['--body-limit', '0', '--output-limit', '0'],
    ])
    await page.getByRole('link', { name: 'Call', exact: true }).click()
    const choose = (label: string) => page.getByLabel('Route', { exact: true }).selectOption({ label })
    const send = page.getByRole('button', { name: 'Send' })
    const cancel = page.getByRole('button', { name: 'Cancel' })
    const body = page.getByLabel('Response body')
    const status = page.locator('.status')

    await choose('POST /steps – steps, run')
    await page.getByRole('textbox', { name: 'Body' }).fill('abc')
    await send.click()
    await expect.poll(() => body.textContent()).toBe('first äö')
    expect(await status.textContent()).toMatch(/^200.*10 B.*first byte after/)
    expect(await page.getByLabel('The same request with curl').textContent()).toMatch(/^curl -iN /)
    await cancel.click()
    await page.getByText('Cancelled.').waitFor()
    expect(await cancel.count()).toBe(0)
    await until(() => stderr().includes('"msg":"-1"')) // the guest has noticed

    await choose('POST /events – events, run')
    await page.getByLabel('None').check()
    await send.click()
    await page.getByText('1 event, the newest first').waitFor()
    const row = page.getByLabel('Events, the newest first').getByRole('listitem')
    expect(await row.textContent()).toMatch(/(µs|ms)tickoneid=7$/)
    expect(await faintTexts(page)).toEqual([])
    expect(await namelessElements(page)).toEqual([])

    await choose('POST /stream/echo – stream, echo') // ends the call before
    const line = 'a line of a large file äöü\n'
    const large = file('large.csv', line.repeat(400_000))
    await page.getByLabel('File').check()
    await page.locator('#body-file').setInputFiles(large)
    await send.click()
    await page.getByText('Complete.').waitFor()
    expect(await status.textContent()).toContain('11.4 MiB')
    await page.getByText('Body: the last 64 KiB of 11.4 MiB').waitFor()
    expect((await body.textContent())?.endsWith(line.repeat(1_000))).toBe(true)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth > 0)).toBe(false)
    expect(mishaps).toEqual([])
  })

  test('it lists the tools for agents, and calls one', async () => {
    const folder = temporaryFolder()
    const inputSchema = {
      type: 'object',
      properties: { text: { type: 'string', description: 'To repeat.' }, times: { type: 'integer' } },
      required: ['text', 'times'],
    }
    const config = {
      apiKeys: ['a-key-of-one-client'],
      mcp: { toolsOnly: true },
      plugins: {
        moody: { source: guest('moody') },
        echo: { source: guest('echo'), tool: { title: 'Echo', inputSchema } },
      },
    }
    writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify(config))
    const { page, mishaps } = await enter([], {}, folder)
    await page.getByRole('link', { name: 'Tools' }).click()
    await page.locator('.refusal').waitFor() // the list needs a key, too
    await page.getByLabel('Headers, one per line').fill('x-api-key: a-key-of-one-client')
    await page.getByLabel('Tool', { exact: true }).selectOption('echo')
    await page.getByText('string, required To repeat.').waitFor()
    const args = page.getByLabel('Arguments')
    expect(JSON.parse(await args.inputValue())).toEqual({ text: '', times: 0 })
    await args.fill('[')
    const call = page.getByRole('button', { name: 'Call the tool' })
    await call.click()
    await page.getByText('This is not a JSON object.').waitFor()
    await args.fill('{"text":"<b>","times":"two"}')
    await call.click()
    await page.getByText('WASM_SERVE_TOOL_ARGUMENTS_INVALID').waitFor()
    await args.fill('{"text":"<b>","times":2}')
    await call.click()
    await expect
      .poll(() => page.getByLabel('Result of the tool').textContent())
      .toBe('{"text":"<b>","times":2}')
    expect(mishaps).toEqual([])
  })

  test('a plug-in that goes bad is found in numbers and log, and rolled back by a click', async () => {
    const { page, post, api, mishaps } = await enter([guest('echo')])
    await page.getByRole('link', { name: 'Plug-ins' }).click()
    await page.getByRole('link', { name: 'echo' }).click()
    const upload = async (name: string, bytes: Uint8Array) => {
      await page.getByLabel('New version (.wasm)').setInputFiles(file(name, bytes))
      await page.getByRole('button', { name: 'Upload' }).click()
    }
    await upload('bad.wasm', guestBytes('bad-import'))
    await page.getByText('WASM_SERVE_PLUGIN_IMPORT_MISSING').waitFor()
    await page.getByText('Refused: nothing was changed.').waitFor()
    expect(await post('/', 'abc')).toEqual([200, 'abc'])

    await upload('moody.wasm', guestBytes('moody'))
    await page.getByText('moody.wasm gets all calls.').waitFor()
    await page.getByText('input_load_u8').waitFor()
    expect((await post('/', 'T'))[0]).toBe(500)
    await page.getByRole('listitem').filter({ hasText: 'trapped' }).waitFor()
    await page.getByText('reason=unreachable').waitFor()

    await page.getByRole('button', { name: /^Roll back to version/ }).click()
    await page.getByText(/gets all calls\. \(revision 3/).waitFor()
    expect(await post('/', 'T')).toEqual([200, 'T'])

    await page.getByRole('button', { name: /^Try with 10 %/ }).click()
    await page.getByText('10 %', { exact: true }).waitFor()
    expect((await api('GET', '/api/plugins/echo')).body.versions).toMatchObject([
      { percent: 10 },
      { percent: 90 },
    ])

    await page.getByLabel(/^Percent of the calls for version/).fill('35')
    await page.getByRole('button', { name: /^Try with 35 %/ }).click()
    await page.getByText('35 %', { exact: true }).waitFor()

    await page.getByRole('link', { name: 'Changes' }).click()
    await page.getByText('Refused').waitFor()
    expect(await page.locator('.changes li').count()).toBe(5)
    expect(mishaps).toEqual([])
  })

  test('what somebody else has changed meanwhile is not overwritten', async () => {
    const { page, post, api, adminUrl } = await enter([guest('echo')])
    await api('PUT', '/api/plugins/echo', guestBytes('upper'))
    await page.goto(`${adminUrl}/#/plugins/echo`)
    await page.getByRole('button', { name: /^Roll back/ }).waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await api('PUT', '/api/plugins/echo', guestBytes('moody'))
    await page.getByRole('button', { name: /^Roll back/ }).click()
    await page.getByText('WASM_SERVE_REVISION_MISMATCH').waitFor()
    expect((await post('/', 'T'))[0]).toBe(500)
  })

  test('a plug-in is added, and its function called, with keys only', async () => {
    const { page, mishaps } = await enter([guest('echo')])
    const tabTo = async (name: string) => {
      for (let times = 0; times < 40; times++) {
        await page.keyboard.press('Tab')
        const focused = await page.evaluate(() => {
          const { activeElement: found } = document
          const label = found instanceof HTMLInputElement ? found.labels?.[0]?.textContent : undefined
          return (found?.ariaLabel ?? label ?? found?.textContent)?.trim()
        })
        if (focused === name) return
      }
      throw new Error(`no key leads to ${name}`)
    }
    await page.keyboard.press('Tab')
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to content')
    await tabTo('Plug-ins')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Plug-ins' }).waitFor()
    await tabTo('Name')
    await page.keyboard.type('shout')
    await page.getByLabel('Module (.wasm)').setInputFiles(file('upper.wasm', guestBytes('upper'))) // a dialog of the system
    await tabTo('URL of a route (optional)')
    await page.keyboard.type('/shout')
    await page.keyboard.press('Enter')
    await page.getByText('shout was added and is served at /shout.').waitFor()
    await page.evaluate(() => document.querySelector<HTMLElement>('.skip')?.focus())
    await tabTo('Routes')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Call POST /shout' }).waitFor()
    await tabTo('Call POST /shout')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Send' }).waitFor()
    for (const key of ['Tab', 'Tab', 'Tab', 'Tab', 'Tab']) await page.keyboard.press(key)
    await page.keyboard.type('abc')
    await tabTo('Send')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.getByLabel('Response body').textContent()).toBe('ABC')
    expect(mishaps).toEqual([])
  })

  test('the link that skips the navigation stays in the view', async () => {
    const { page, adminUrl } = await enter([guest('echo')])
    await page.goto(`${adminUrl}/#/plugins/echo`)
    await page.getByRole('heading', { level: 1, name: 'echo' }).waitFor()
    await page.locator('.skip').focus()
    await page.keyboard.press('Enter')
    await page.waitForFunction(() => document.activeElement?.id === 'main')
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('echo')
    expect(page.url()).toBe(`${adminUrl}/#/plugins/echo`)
  })

  test('charts follow the colours and the size of the page', async () => {
    const { page } = await enter([guest('echo')], { colorScheme: 'light' })
    /** Waits until the last chart is as wide as its place, with a line in this colour, give or take the rounding. */
    const drawnIn = (colour: readonly number[]) =>
      page.waitForFunction((wanted) => {
        const canvas = [...document.querySelectorAll<HTMLCanvasElement>('.figure canvas')].at(-1)
        const pixels = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? []
        const isLine = (_: number, at: number) =>
          at % 4 === 3 &&
          (pixels[at] ?? 0) > 99 &&
          wanted.every((channel, place) => Math.abs((pixels[at - 3 + place] ?? 0) - channel) < 4)
        return canvas?.clientWidth === canvas?.closest('.chart')?.clientWidth && pixels.some(isLine)
      }, colour)
    await drawnIn([11, 107, 61])
    await page.emulateMedia({ colorScheme: 'dark' })
    await drawnIn([111, 219, 160])
    await page.setViewportSize({ width: 390, height: 800 })
    await drawnIn([111, 219, 160])
  })

  test('thousands of plug-ins are shown page by page, searched and sorted, and only the page is polled', async () => {
    const folder = temporaryFolder()
    for (let number = 0; number < 2_000; number++)
      writeFileSync(join(folder, `p${number}.wasm`), moduleNumber(number))
    const { page, post, mishaps, adminUrl } = await enter([folder, '--load', 'lazy'])
    const lengths: number[] = []
    page.on('response', (response) => {
      if (response.url().includes('/api/')) lengths.push(Number(response.headers()['content-length']))
    })
    const links = page.getByRole('link', { name: /^Call POST/ })
    const search = page.getByLabel('Search the routes')
    const state = page.getByRole('status').filter({ hasText: 'routes' })
    await page.getByText('1–50 of 2,000 routes').waitFor()
    expect(await links.count()).toBe(50)

    const next = page.getByRole('button', { name: 'Next page' })
    await next.focus()
    await page.keyboard.press('Enter')
    await page.getByText('51–100 of 2,000 routes').waitFor()
    expect(await next.evaluate((node) => node === document.activeElement)).toBe(true)
    await page.getByRole('button', { name: 'Previous page' }).click()
    await page.getByText('1–50 of 2,000 routes').waitFor()

    for (const path of ['/p1234', '/p77', '/p1234', '/p1234', '/p77']) await post(path, 'abc')
    await page.getByLabel('Sort by').selectOption('Most calls')
    await expect.poll(() => links.first().textContent()).toContain('/p1234')
    expect(await links.nth(1).textContent()).toContain('/p77')
    expect(await page.locator('[data-label="Calls"]').first().textContent()).toBe('3')
    const row = page.getByRole('row').filter({ has: page.getByText('/p1234', { exact: true }) })
    await expect.poll(() => row.locator('[data-label="Memory"]').textContent()).toMatch(/KiB|MiB/)
    for (let call = 0; call < 20; call++) await post('/p1234', 'abc')
    await expect.poll(() => row.locator('[data-label="p99"]').textContent()).toMatch(/µs|ms/)

    await search.fill('P199')
    await expect.poll(() => state.textContent()).toBe('11 routes')
    expect(await search.evaluate((node) => node === document.activeElement)).toBe(true)
    await search.fill('p19999')
    await page.getByText('Nothing matches.').waitFor()
    await search.fill('p1999')
    await expect.poll(() => links.allTextContents()).toEqual(['POST /p1999'])

    await page.getByRole('link', { name: 'p1999', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'p1999' }).waitFor()
    await page.getByRole('link', { name: 'Call /p1999' }).waitFor()
    await page.goBack()
    await expect.poll(() => search.inputValue()).toBe('p1999')
    await expect.poll(() => links.allTextContents()).toEqual(['POST /p1999'])

    await page.goto(`${adminUrl}/#/call`)
    await page.getByLabel('Search the routes').fill('nowhere')
    await page.getByText('0 routes', { exact: true }).waitFor()
    await page.getByLabel('Search the routes').fill('p1500')
    const routes = page.getByLabel('Route', { exact: true })
    await routes.selectOption({ label: 'POST /p1500 – p1500, echo' })
    await page.getByRole('textbox', { name: 'Body' }).fill('abc')
    await page.getByRole('button', { name: 'Send' }).click()
    await expect.poll(() => page.getByLabel('Response body').textContent()).toBe('abc')

    await page.goto(`${adminUrl}/#/plugins`)
    await page.getByText('1–50 of 2,000 plug-ins').waitFor()
    expect(await page.locator('.plugins li').count()).toBe(50)
    expect(await faintTexts(page)).toEqual([])
    expect(await namelessElements(page)).toEqual([])
    expect(Math.max(...lengths)).toBeLessThan(100_000)
    expect(mishaps).toEqual([])
  })

  test.each([
    ['light', 1280],
    ['dark', 400],
  ] as const)('it can be read, heard and worked with: %s, %i px', async (colorScheme, width) => {
    const { page, mishaps } = await enter([guest('echo')], { colorScheme, viewport: { width, height: 800 } })
    const views = [
      ['#/', 'Routes'],
      ['#/plugins', 'Plug-ins'],
      ['#/plugins/echo', 'echo'],
      ['#/call', 'Call a function'],
      ['#/changes', 'Changes'],
      ['#/processes', 'Processes'],
      ['#/log', 'Server log'],
      ['#/plugins/none', 'none'],
    ] as const
    for (const [view, name] of views) {
      await page.evaluate((hash) => {
        location.hash = hash
      }, view)
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
      const problems = {
        faint: await faintTexts(page),
        nameless: await namelessElements(page),
        overflow: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth > 0),
      }
      expect([view, problems]).toEqual([view, { faint: [], nameless: [], overflow: false }])
    }
    expect(mishaps).toEqual([])
  })

  test('the policy of the page lets nothing in but its own files', async () => {
    const { adminUrl } = await startApi(start, [guest('echo')])
    const { headers } = await fetch(adminUrl)
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none';/)
    expect(headers.get('content-security-policy')).not.toContain('unsafe')
    const script = await (await fetch(`${adminUrl}/console/main.js`)).text()
    for (const name of ['preact', 'uplot', 'Jason Miller', 'Leon Sorokin']) expect(script).toContain(name)
    for (const path of ['/console/', '/console/main.tsx', '/console/..%2fadmin.js', '/console/main.d.ts']) {
      expect([path, (await fetch(adminUrl + path)).status]).toEqual([path, 401]) // as all that is not there
    }
  })
})
