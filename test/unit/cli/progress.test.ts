import { expect, test } from 'vitest'
import { showTransfers } from '../../../src/cli/progress.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'

const MEBIBYTE = 1_048_576
const transfer = (done: number, total = 10) => ({
  name: 'oci://a/b:1',
  digest: 'sha256:0',
  done: done * MEBIBYTE,
  total: total * MEBIBYTE,
})

/** Shows a transfer of which so many MiB have arrived at these times in ms. */
function shown(
  isTerminal: boolean,
  ...steps: (readonly [ms: number, done: number, total?: number])[]
): string {
  let output = ''
  let now = 0
  const write = (text: string) => {
    output += text
  }
  const host = {
    logTerminal: isTerminal ? { write, colours: false } : undefined,
    logLines: { write },
    secrets: new Secrets(),
  }
  const show = showTransfers(host, 'pulled', () => now)
  for (const [ms, done, total] of steps) {
    now = ms
    show(transfer(done, total))
  }
  return output
}

test('a transfer of less than a second shows nothing', () => {
  expect(shown(true, [0, 1], [500, 5], [999, 10])).toBe('')
  expect(shown(false, [0, 1], [999, 10])).toBe('')
})

test('a terminal shows bytes, rate and what remains, in one line that changes', () => {
  expect(shown(true, [0, 1], [2_000, 4], [2_100, 5], [5_000, 10])).toBe(
    '\r\x1b[Koci://a/b:1: 4.0 MiB of 10.0 MiB, 2.0 MiB/s, 3 s left' +
      '\r\x1b[Kpulled oci://a/b:1: 10.0 MiB in 5 s\n',
  )
})

test('a log has one line, at the end', () => {
  const [line, ...more] = shown(false, [0, 1], [2_000, 4], [5_000, 10]).trim().split('\n')
  expect(more).toEqual([])
  expect(JSON.parse(line ?? '')).toMatchObject({
    name: 'oci://a/b:1',
    digest: 'sha256:0',
    bytes: 10 * MEBIBYTE,
    ms: 5_000,
    msg: 'pulled',
  })
})

test('a transfer that is repeated shows no rate before its first byte', () => {
  expect(shown(true, [0, 1], [2_000, 0], [2_500, 10])).toBe('\r\x1b[Kpulled oci://a/b:1: 10.0 MiB in 3 s\n')
})

test.each([
  [1, '1.0 MiB'],
  [0.5, '512 KiB'],
  [2.25, '2.3 MiB'],
])('the size of %d MiB is shown as %s', (size, text) => {
  expect(shown(true, [0, size / 2, size], [2_000, size, size])).toBe(
    `\r\x1b[Kpulled oci://a/b:1: ${text} in 2 s\n`,
  )
})

test('a terminal is written to at most five times a second', () => {
  const lines = shown(true, [0, 1], [1_000, 2], [1_199, 3], [1_200, 4], [1_399, 5]).split('\r')
  expect(lines.slice(1).map((line) => / ([\d.]+) MiB of/.exec(line)?.[1])).toEqual(['2.0', '4.0'])
})
