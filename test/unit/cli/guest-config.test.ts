import { describe, expect, test } from 'vitest'
import type { Host } from '../../../src/cli/command.ts'
import { guestFlags, readGuestConfig, readInput } from '../../../src/cli/guest-config.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { file } from '../../support/guest.ts'

const names = guestFlags.map(({ name }) => name)

const read = (words: readonly string[], environment = {}) => {
  const host = { environment, logTerminal: undefined, logLines: undefined, secrets: new Secrets() }
  return readGuestConfig(['a.wasm', ...words], host, 'call')
}

describe('a command that runs a guest without a server', () => {
  test.each([
    ...['config', 'memory-max', 'allow-path', 'runtime', 'link', 'timeout', 'workers', 'allow-host'],
    ...[
      'isolation',
      'log-level',
      'cache-folder',
      'max-functions',
      'store',
      'store-max',
      'store-timeout-ms',
      'function',
    ],
  ])('takes --%s', (name) => {
    expect(names).toContain(name)
  })

  test.each([
    ...['host', 'body-limit', 'content-type', 'max-queue', 'access-log', 'method', 'url', 'contract'],
    ...['error-status', 'stall-ms', 'admin', 'drain-ms'],
  ])('refuses --%s', (name) => {
    expect(names).not.toContain(name)
    const value = {
      'access-log': [],
      url: ['/a'],
      'content-type': ['a/b'],
      method: ['GET'],
      contract: ['http'],
    }
    const words = Object.hasOwn(value, name) ? value[name as keyof typeof value] : ['400']
    expect(() => read([`--${name}`, ...words])).toThrow(`--${name}: not supported by call`)
  })

  test('has no port, and ignores the variables of a server', () => {
    expect(() => read(['--port', '80'])).toThrow('call takes no port')
    const { server, route } = read([], { WASM_SERVE_PORT: '9000', WASM_SERVE_MEMORY_MAX: '9' })
    expect([server.port, route.memoryMax]).toEqual([8080, 9])
  })
})

test('the input is that of the flag, the file or standard input, and nothing by default', async () => {
  const path = file('input', 'of the file')
  const host = { readInput: async () => Buffer.from('of standard input') } as Partial<Host> as Host
  const none = { input: undefined, 'input-file': undefined, stdin: false }
  const text = async (values: Partial<Parameters<typeof readInput>[0]>) =>
    Buffer.from(await readInput({ ...none, ...values }, host)).toString()
  expect(await text({})).toBe('')
  expect(await text({ input: 'of the flag' })).toBe('of the flag')
  expect(await text({ 'input-file': path })).toBe('of the file')
  expect(await text({ stdin: true })).toBe('of standard input')
  for (const two of [
    { input: 'a', 'input-file': path },
    { input: 'a', stdin: true },
    { 'input-file': path, stdin: true },
  ])
    await expect(text(two)).rejects.toThrow('given twice')
  await expect(text({ 'input-file': '/no/such/file' })).rejects.toMatchObject({
    code: 'WASM_SERVE_INPUT_UNREADABLE',
  })
})
