import { expect, test } from 'vitest'
import { COMMANDS } from '../../../src/cli/cli.ts'
import { renderHelp } from '../../../src/cli/help.ts'
import { flags } from '../../../src/options/flags.ts'
import { run } from '../../support/cli.ts'

const pageOf = async (...words: string[]) => (await run(['help', ...words])).stdout

test.each([
  ['The plug-in and its route:', 'route', ['--set-config <JSON>', '--no-wasi', '--body-limit <size>']],
  ['Where the plug-in comes from:', 'load', ['-m, --manifest <path>', '--download-timeout-ms <time>']],
  ['The server:', 'server', ['-c, --config-file <path>', '--print-config', '-h, --help', '-v, --version']],
])('below "%s" are the flags of the %s', async (title, scope, more) => {
  const sections = (await pageOf('flags')).split('\n\n')
  const section = sections.find((each) => each.startsWith(title)) ?? ''
  const named = [...section.matchAll(/^ {2}--([a-z0-9-]+)/gm)].map(([, name]) => name)
  const own = flags.filter((flag) => flag.scope === scope).map(({ name }) => name)
  expect(own.filter((name) => !named.includes(name))).toEqual([])
  const others = flags.filter((flag) => flag.scope !== scope).map(({ name }) => name)
  expect(named.filter((name = '') => others.includes(name))).toEqual([])
  for (const words of more) expect(section).toContain(words)
})

test.each([
  ['--port <n>', '[8080]'],
  ['--log-level <text>', '[info]'],
  ['--runtime <kernel|sdk>', '[kernel]'],
  ['--workers <n|auto>', ''],
])('the flag %s is shown with its default %s', async (usage, shown) => {
  const lines = (await pageOf('flags')).split('\n')
  const at = lines.findIndex((line) => line.startsWith(`  ${usage}`))
  const rest = lines.slice(at + 1)
  const text = [
    lines[at],
    ...rest.slice(
      0,
      rest.findIndex((line) => /^ {0,4}\S|^$/.test(line)),
    ),
  ].join(' ')
  expect(at).toBeGreaterThan(0)
  if (shown === '') expect(text).not.toContain('[')
  else expect(text).toContain(shown)
})

test('without a topic, or with what asks for help, it shows all commands but the first', async () => {
  const page = await pageOf()
  expect(await pageOf('--help')).toBe(page)
  expect(await pageOf('-h')).toBe(page)
  expect(page).toBe(renderHelp(COMMANDS))
  expect(page).toMatch(/^ {2}inspect /m)
  expect(page).not.toMatch(/^ {2}serve /m)
})
