import { expect, test } from 'vitest'
import { GuestBlocks, HostBlocks } from '../../../src/engine/workers/shared-blocks.ts'
import { ThreadState } from '../../../src/engine/workers/thread-state.ts'
import type { KernelMemory } from '../../../src/runtime/kernel-memory.ts'

const LIMIT = 1_048_576

/** Both sides, in one thread. The host receives what the guest's side posts, unless `isLate`. */
function openSides({ isLate = false } = {}) {
  const threadState = new ThreadState()
  const host = new HostBlocks(new ThreadState(threadState.memory))
  const posted: number[] = []
  const guest = new GuestBlocks(threadState, (blocks) => {
    posted.push(blocks.number)
    if (!isLate) host.receive(blocks)
  })
  const memory = guest.open(LIMIT)
  guest.free()
  return { host, guest, memory, posted }
}

/** Does what a guest does that echoes. */
function echo(memory: KernelMemory): Uint8Array {
  const { input_offset, input_length, output_set } = memory.functions as Record<
    string,
    (...args: bigint[]) => bigint
  >
  output_set?.(input_offset?.() ?? 0n, input_length?.() ?? 0n)
  return memory.outputView()
}

test('an input that the host has placed is there for the guest, and its output for the host', () => {
  const { host, guest, memory } = openSides()
  for (const body of ['first', 'the second one', '3'].map((text) => Buffer.from(text))) {
    expect(host.place(body)).toBe(true)
    const input = guest.takeInput(true)
    expect(Buffer.compare(input, body)).toBe(0)
    expect(memory.input(input)).toBe(true)
    expect(guest.leave(echo(memory))).toBe(true)
    expect(Buffer.compare(host.takeOutput(), body)).toBe(0)
    expect(memory.isUsed).toBe(false)
  }
})

test('the host places nothing while the guest has the blocks, or an output is left in them', () => {
  const { host, guest, memory } = openSides()
  guest.take()
  expect(host.place(Buffer.from('early'))).toBe(false)
  memory.input(Buffer.from('one'))
  expect(guest.leave(echo(memory))).toBe(true)
  expect(host.place(Buffer.from('early'))).toBe(false)
  expect(String(host.takeOutput())).toBe('one')
  expect(host.place(Buffer.from('now'))).toBe(true)
  expect(host.place(Buffer.from('again'))).toBe(false)
})

test('an input is copied for an instance that is not open: its start uses the memory', () => {
  const { host, guest, memory } = openSides()
  host.place(Buffer.from('for another one'))
  const input = guest.takeInput(false)
  expect(memory.isUsed).toBe(false)
  memory.store(Buffer.from('of its start'))
  memory.reset()
  expect(String(Buffer.from(input))).toBe('for another one')
})

test('an input that is too large for the blocks is not placed, and the next one is', () => {
  const { host } = openSides()
  expect(host.place(new Uint8Array(LIMIT + 1))).toBe(false)
  expect(host.place(new Uint8Array(LIMIT / 2))).toBe(true)
})

test('an output is left only in blocks that the host has received', () => {
  const { guest, memory } = openSides({ isLate: true })
  guest.take()
  memory.input(Buffer.from('unknown'))
  expect(guest.leave(echo(memory))).toBe(false)
})

test('an output that is elsewhere is not left', () => {
  const { guest } = openSides()
  guest.take()
  expect(guest.leave(Buffer.from('elsewhere'))).toBe(false)
})

test('blocks of an instance that was closed serve the next one, unless they have grown', () => {
  const { guest, memory, posted } = openSides()
  guest.close(memory)
  expect(guest.open(LIMIT)).toBe(memory)
  const other = guest.open(32 * LIMIT)
  expect(other).not.toBe(memory)
  other.input(new Uint8Array(20 * LIMIT))
  guest.close(other)
  expect(guest.open(LIMIT)).not.toBe(other)
  expect(posted).toEqual([1, 2, 3])
})

test('a call that the host took back leaves nothing in the blocks', () => {
  const { host, guest, memory } = openSides()
  host.place(Buffer.from('taken back'))
  guest.free()
  expect(memory.isUsed).toBe(false)
  expect(host.place(Buffer.from('the next'))).toBe(true)
})
