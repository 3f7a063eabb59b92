import { expect, test, vi } from 'vitest'
import { loadModule } from '../../../src/plugin/load-module.ts'
import { guestBytes } from '../../support/guest.ts'

test('V8 validates a module once before it compiles what it becomes', async () => {
  const job = {
    name: 'echo',
    memoryMax: 16,
    needsModule: true,
    resettable: 'no',
    kernelMemory: 'own',
  } as const
  const validate = vi.spyOn(WebAssembly, 'validate')
  try {
    const loaded = await loadModule(guestBytes('echo'), { ...job, interrupts: true })
    expect(loaded.facts.isInterruptible).toBe(true)
    expect(validate).toHaveBeenCalledTimes(1)
  } finally {
    validate.mockRestore()
  }
})
