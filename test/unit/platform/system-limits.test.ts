import { expect, test } from 'vitest'
import { ConfigUnreadableError, InstanceStartError } from '../../../src/errors/errors.ts'
import { explainLimit, fileProblem } from '../../../src/platform/system-errors.ts'
import { kernel } from '../../../src/runtime/kernel.ts'
import { openEngine } from '../../support/engine.ts'

const systemError = (code: string, syscall?: string) =>
  Object.assign(new Error(`${code}: no`), { code, syscall })

test.each([
  ['EMFILE', 'open', 'ulimit -n'],
  ['ENFILE', 'open', 'fs.file-max'],
  ['ENOSPC', 'write', 'disk is full'],
  ['EDQUOT', 'write', 'quota'],
  ['ENOMEM', 'mmap', 'memory'],
  ['EAGAIN', 'spawn node', 'ulimit -u'],
])('%s of %s is explained, with the limit', (code, syscall, limit) => {
  expect(explainLimit(systemError(code, syscall))).toContain(limit)
})

test.each([
  'WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance',
  'WebAssembly.Memory(): could not allocate memory',
])('V8 that can reserve no memory is explained: %s', (message) => {
  expect(explainLimit(new Error('a', { cause: new RangeError(message) }))).toContain('10 GiB')
})

test('the limit of open files is told as a number', () => {
  expect(explainLimit(systemError('EMFILE'))).toMatch(/may have \d+ \(ulimit -n/)
})

test.each([
  ['Worker initialization failure: EMFILE', 'ulimit -n'],
  ['Worker initialization failure: EAGAIN', 'ulimit -u'],
  ['Worker initialization failure', 'ulimit -u'],
])('so is a thread that Node.js cannot start: %s', (message, limit) => {
  const error = Object.assign(new Error(message), { code: 'ERR_WORKER_INIT_FAILED' })
  expect(explainLimit(error)).toContain(limit)
})

test('causes are looked at, also those that have crossed from a thread', () => {
  const cause = systemError('EMFILE')
  expect(explainLimit(new ConfigUnreadableError('a', 'b', { cause }))).toContain('ulimit -n')
  const crossed = { reason: 'EMFILE: too many open files', stack: '' }
  expect(explainLimit(new InstanceStartError('a', 'b', { cause: crossed }))).toContain('ulimit -n')
  expect(fileProblem(cause)).toContain('ulimit -n')
})

test.each([
  systemError('ENOENT', 'open'),
  systemError('EAGAIN', 'read'),
  Object.assign(new Error('no such module'), { code: 'ERR_MODULE_NOT_FOUND' }),
  new Error('a bug'),
  undefined,
  'text',
])('what is no limit is not explained: %s', (error) => {
  expect(explainLimit(error)).toBeUndefined()
})

test('causes that go in circles end', () => {
  const error = new Error('round')
  error.cause = error
  expect(explainLimit(error)).toBeUndefined()
})

test('a thread that cannot be made is a start that fails, and not the end of the process', async () => {
  const services = [(() => undefined) as never] // what cannot cross to a thread
  const engine = await openEngine({ name: 'workers', runtime: kernel }, 'echo', {
    services,
    backoffMs: 1_000_000,
  })
  await expect(engine.ready).rejects.toMatchObject({ code: 'WASM_SERVE_INSTANCE_START_FAILED' })
})
