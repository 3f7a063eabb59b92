import { expect, onTestFinished, test, vi } from 'vitest'
import type { RunningServer } from '../../../src/server/server.ts'
import { openProcessSignals } from '../../../src/server/shutdown.ts'
import { keepLog } from '../../support/instance.ts'

test.each([
  'SIGINT',
  'SIGTERM',
] as const)('%s during the start kills what would outlive the process, and ends it as without a handler', (signal) => {
  const kill = vi.spyOn(process, 'kill').mockReturnValue(true)
  onTestFinished(() => kill.mockRestore())
  const before = process.listeners(signal)
  const killed = vi.fn()
  openProcessSignals().atExit(killed)
  onTestFinished(() => void process.off('exit', killed))
  const [end] = process.listeners(signal).filter((listener) => !before.includes(listener))
  end?.(signal)
  expect(killed).toHaveBeenCalledOnce()
  expect(process.listeners(signal)).toEqual(before)
  expect(kill).toHaveBeenCalledWith(process.pid, signal)
})

test('after the start, signals are left to the server', () => {
  const names = ['SIGINT', 'SIGTERM', 'SIGUSR2'] as const
  const listeners = () => names.map((name) => process.listeners(name))
  const before = listeners()
  const killed = vi.fn()
  const signals = openProcessSignals()
  signals.atExit(killed)
  onTestFinished(() => void process.off('exit', killed))
  expect(listeners()).not.toEqual(before)
  for (const method of ['on', 'once'] as const) {
    const adding = vi.spyOn(process, method).mockReturnValue(process)
    onTestFinished(() => adding.mockRestore())
  }
  const server = { drain: async () => undefined } as object as RunningServer
  signals.endWith(server, { drainMs: 0, graceMs: 0 }, keepLog() as never, () => undefined)
  expect(listeners()).toEqual(before)
})
