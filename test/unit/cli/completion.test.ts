import { describe, expect, test } from 'vitest'
import { COMMANDS } from '../../../src/cli/cli.ts'
import { completionWords } from '../../../src/cli/completion/completion.ts'
import { PARSED_FLAGS } from '../../../src/options/config.ts'
import { run } from '../../support/cli.ts'

const { flags, paths, texts, choices } = completionWords(Object.keys(COMMANDS))
const chosen = choices.map(([flag]) => flag)

test('each flag of serve is offered, and no word is offered twice', () => {
  for (const name of Object.keys(PARSED_FLAGS)) expect(flags).toContain(`--${name}`)
  for (const words of [flags, paths, texts, chosen]) expect(words).toEqual([...new Set(words)])
  expect(flags.filter((flag) => !/^--[a-z][a-z0-9-]*$/.test(flag))).toEqual([])
})

test('after a flag of serve that takes a value come its values, files or nothing', () => {
  for (const [name, { type }] of Object.entries(PARSED_FLAGS)) {
    const kinds = [chosen, paths, texts].filter((words) => words.includes(`--${name}`))
    expect([name, kinds.length]).toEqual([name, type === 'string' ? 1 : 0])
  }
})

test.each([
  ...['--manifest', '-m', '--config-file', '--functions', '--tls-cert'],
  ...['--file', '-f', '--output', '-o'],
])('after %s come files', (flag) => {
  expect(paths).toContain(flag)
  expect(texts).not.toContain(flag)
})

test.each(['--set-config', '--port', '--input', '-i'])('after %s comes nothing', (flag) => {
  expect(texts).toContain(flag)
})

test('what a boolean option can be turned off by is offered', () => {
  expect(flags.filter((flag) => flag.startsWith('--no-')).length).toBeGreaterThan(0)
  expect(choices).toContainEqual(['--log-level', expect.arrayContaining(['debug', 'silent'])])
})

describe.each(['bash', 'zsh', 'fish'])('in %s', (shell) => {
  test('all words stand in the script', async () => {
    const { code, stdout } = await run(['completion', shell])
    expect(code).toBe(0)
    const words = new Set(stdout.split(/[^\w-]+/))
    const isSaid = (flag: string) =>
      words.has(flag) || stdout.includes(`${flag.startsWith('--') ? '-l' : '-s'} ${flag.replace(/^-+/, '')}`)
    expect([...flags, ...paths, ...texts, ...chosen].filter((flag) => !isSaid(flag))).toEqual([])
    expect(Object.keys(COMMANDS).filter((name) => !words.has(name))).toEqual([])
  })
})
