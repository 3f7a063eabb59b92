import { expect, onTestFinished, test, vi } from 'vitest'
import { openProcessSignals } from '../../../src/server/shutdown.ts'

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
