import { expect, test } from 'vitest'
import { openTerminal } from '../../../src/cli/terminal.ts'

test.each([
  ['a terminal that has colours', true, { isTTY: true, has: true }, {}],
  ['a terminal that has none', false, { isTTY: true, has: false }, {}],
  ['a terminal, if NO_COLOR is set', false, { isTTY: true, has: true }, { NO_COLOR: '1' }],
  ['a terminal, if NO_COLOR is empty', true, { isTTY: true, has: true }, { NO_COLOR: '' }],
  ['a file', false, { isTTY: false, has: true }, {}],
])('%s gets colours: %s', (_, colours, { isTTY, has }, environment) => {
  const written: unknown[] = []
  const write = (text: unknown) => written.push(text) > 0
  const terminal = openTerminal({ isTTY, hasColors: () => has, write }, environment)
  terminal.write('a line\n')
  expect([terminal.colours, written]).toEqual([colours, ['a line\n']])
})
