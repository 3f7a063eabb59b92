import { describe, expect, onTestFinished, test } from 'vitest'
import { PendingCall } from '../../../src/engine/engine.ts'
import { keepLog } from '../../support/instance.ts'

const open = () => new PendingCall('hello', new Uint8Array(), { log: keepLog() })
const output = Buffer.from('output')
const error = new Error('no')

/** What was told, in order. */
function listen(call: PendingCall): unknown[] {
  const told: unknown[] = []
  call.subscribe(
    (bytes) => told.push(bytes),
    (reason) => told.push(reason),
  )
  return told
}

describe('a call that is answered later', () => {
  test('tells its answer, or its error, at once', () => {
    const [good, bad] = [open(), open()]
    const told = [listen(good), listen(bad)]
    good.resolve(output)
    bad.reject(error)
    expect(told).toEqual([[output], [error]])
  })

  test('tells what came before anybody asked', () => {
    const [good, bad] = [open(), open()]
    good.resolve(output)
    bad.reject(error)
    expect([listen(good), listen(bad)]).toEqual([[output], [error]])
  })

  test('tells the first of them only', () => {
    const [good, bad] = [open(), open()]
    const told = [listen(good)]
    for (const call of [good, bad]) {
      call.resolve(output)
      call.reject(error)
    }
    expect([...told, listen(bad)]).toEqual([[output], [output]])
  })

  test('can be awaited, also more than once', async () => {
    const [good, bad] = [open(), open()]
    good.resolve(output)
    const failing = expect(bad).rejects.toBe(error)
    bad.reject(error)
    expect([await good, await good]).toEqual([output, output])
    await failing
  })

  test('one whose listener throws does not keep the next from being told; the error is not lost', async () => {
    const uncaught = new Promise((resolve) => {
      const others = process.listeners('uncaughtException')
      process.removeAllListeners('uncaughtException').once('uncaughtException', resolve)
      onTestFinished(() => {
        for (const other of others) process.on('uncaughtException', other)
      })
    })
    const call = open()
    call.subscribe(
      () => {
        throw error
      },
      () => undefined,
    )
    call.resolve(output)
    expect(await uncaught).toBe(error)
  })
})
