import { expect, test } from 'vitest'
import { RpcError } from '../../../src/mcp/json-rpc.ts'
import { levelsFrom, logFor } from '../../../src/mcp/log-notifications.ts'
import { keepLog } from '../../support/instance.ts'

/** Severities of syslog without their numbers, the least severe first. (RFC 5424, section 6.2.1) */
const SYSLOG = 'debug info notice warning error critical alert emergency'.split(' ')

test.each(SYSLOG)('a client that asks for the level %s gets it and all that are more severe', (least) => {
  expect(SYSLOG.filter((level) => levelsFrom(least)?.(level))).toEqual(SYSLOG.slice(SYSLOG.indexOf(least)))
})

test('a client that names no level gets no log, and one that names another is refused', () => {
  expect(levelsFrom(undefined)).toBeUndefined()
  for (const other of ['', 'warn', 'trace', 'Error', null, 1, ['error']])
    expect(() => levelsFrom(other)).toThrow(RpcError)
})

test('each line of a guest is logged, and sent with the level of MCP if the client wants it', () => {
  const lines = keepLog()
  const sent: unknown[] = []
  const notify = (method: string, params: string) => void sent.push([method, JSON.parse(params)])
  const log = logFor(lines, { notify, wantsLevel: levelsFrom('info') })
  const levels = ['trace', 'debug', 'info', 'warn', 'error'] as const
  for (const level of levels) log[level]({ plugin: 'a' }, `line "${level}"`)
  expect(lines.lines.map(({ level }) => level)).toEqual(levels)
  expect(sent).toEqual([
    ['notifications/message', { level: 'info', data: 'line "info"' }],
    ['notifications/message', { level: 'warning', data: 'line "warn"' }],
    ['notifications/message', { level: 'error', data: 'line "error"' }],
  ])
})
