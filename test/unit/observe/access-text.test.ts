import { expect, test } from 'vitest'
import { quotable, renderTime } from '../../../src/observe/log/access-text.ts'

test.each([
  ['plain text, é excepted: ~', 'plain text, \\xe9 excepted: ~'],
  ['"quoted"', '\\"quoted\\"'],
  ['a\\b', 'a\\\\b'],
  ['a\r\n\t\u0000', 'a\\x0d\\x0a\\x09\\x00'],
  ['\u001b[2J\u007f', '\\x1b[2J\\x7f'],
  ['\u0080\u009b\u00ff', '\\x80\\x9b\\xff'],
])('in quotes, %j is written as %j', (text, written) => {
  expect(quotable(text)).toBe(written)
})

test.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])('a time of month %d has the name of its month', (month) => {
  const time = new Date(Date.UTC(2026, month, 7, 20, 15, 3, 999))
  const [, , name] = time.toUTCString().split(' ') // Wed, 07 Jan 2026 20:15:03 GMT
  expect(renderTime(time)).toBe(`07/${name}/2026:20:15:03 +0000`)
})
