import { expect, test } from 'vitest'
import { GuestLog } from '../src/log/guest-log.ts'
import { keepLog } from './support/instance.ts'

test('lines are kept until the call ends: the logger must not run on what a guest has left of the stack', () => {
  const [idle, mine] = [keepLog(), keepLog()]
  const log = new GuestLog(idle, { plugin: 'a.wasm' })
  log.begin(mine)
  log.write('info', 'first')
  log.write('warn', 'second')
  expect(mine.lines).toEqual([])
  log.end()
  expect(mine.lines).toEqual([
    { level: 'info', fields: { plugin: 'a.wasm' }, message: 'first' },
    { level: 'warn', fields: { plugin: 'a.wasm' }, message: 'second' },
  ])
  expect(idle.lines).toEqual([])
})
