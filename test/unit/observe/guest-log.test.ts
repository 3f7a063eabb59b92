import { expect, test } from 'vitest'
import { GuestLog, LineRate } from '../../../src/observe/log/guest-log.ts'
import { openLog } from '../../../src/observe/log/log.ts'
import { keepLog } from '../../support/instance.ts'

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

test('lines beyond so many a second are dropped, whatever call and instance they come from, and that is said once', () => {
  const lineRate = new LineRate(3)
  const dropped: number[] = []
  const limits = { lineRate, onDroppedLines: (lines: number) => void dropped.push(lines) }
  const lines = [1, 2, 3].flatMap((instance) => {
    const mine = keepLog()
    const log = new GuestLog(keepLog(), { instance }, false, limits)
    log.begin(mine, 'chat')
    for (const line of ['a', 'b']) log.write('info', line)
    log.end()
    return mine.lines.map(({ level, message }) => [instance, level, message])
  })
  expect(lines).toEqual([
    [1, 'info', 'a'],
    [1, 'info', 'b'],
    [2, 'info', 'a'],
    [2, 'warn', expect.stringContaining('more than 3 lines a second')],
  ])
  expect(dropped).toEqual([1, 2])
})

test('in the next second there is room again, and something new to say', () => {
  const rate = new LineRate(2)
  expect([0, 1, 2, 999].map((now) => rate.take(now))).toEqual([true, true, false, false])
  expect([rate.shouldReport(), rate.shouldReport()]).toEqual([true, false])
  expect([1_000, 1_500, 1_999, 2_000].map((now) => rate.take(now))).toEqual([true, true, false, true])
  expect(rate.shouldReport()).toBe(true)
})

test('no control character reaches a terminal, and a reader of JSON gets each', () => {
  const controls = [
    '\u0000\u001b\u007f\u0080\u009b\u009f',
    '\u2028\u2029\u202a\u202e\u2066\u2069',
    'ä \u200d 😄',
  ]
  const lines: string[] = []
  const log = openLog('info', { lines: { write: (line: string) => lines.push(line) } })
  const guestLog = new GuestLog(log, { plugin: controls[1] })
  guestLog.write('info', controls.join(''))
  guestLog.end()
  const [line = ''] = lines
  expect(line).toMatch(/^[ -~äø-\uffff]*\n$/)
  expect(line).not.toMatch(/[\u2028-\u202e\u2066-\u2069]/)
  expect(JSON.parse(line)).toMatchObject({ msg: controls.join(''), plugin: controls[1] })
})
