import { expect, test } from 'vitest'
import { showTransfers } from '../../../src/cli/progress.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'

const MEBIBYTE = 1_048_576
const transfer = (done: number) => ({
  name: 'oci://a/b:1',
  digest: 'sha256:0',
  done: done * MEBIBYTE,
  total: 10 * MEBIBYTE,
})

/** Shows a transfer of which so many MiB have arrived at these times in ms. */
function shown(isTerminal: boolean, ...steps: (readonly [ms: number, done: number])[]): string {
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
  for (const [ms, done] of steps) {
    now = ms
    show(transfer(done))
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
