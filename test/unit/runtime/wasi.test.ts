import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openWasi, ProcExit, ProgramStreams, type WasiOptions } from '../../../src/runtime/wasi/wasi.ts'
import { guestBytes } from '../../support/guest.ts'
import { errnoName, openGuest } from '../../support/wasi.ts'

const WASI = 'wasi_snapshot_preview1'

const moduleOf = (name: string) => new WebAssembly.Module(new Uint8Array(guestBytes(name)))

test('a guest that imports all of WASI preview 1 links, and nothing else is offered', () => {
  const { wasi } = openGuest()
  const module = moduleOf('wasi-all')
  const instance = new WebAssembly.Instance(module, { [WASI]: wasi.imports })
  expect(instance.exports).toHaveProperty('_start')
  const names = WebAssembly.Module.imports(module).map(({ name }) => name)
  expect(Object.keys(wasi.imports).sort()).toEqual(names.sort())
})

test('a guest that exits throws an error with the status', () => {
  const { wasi } = openGuest()
  const module = moduleOf('wasi-all')
  const { _start } = new WebAssembly.Instance(module, { [WASI]: wasi.imports }).exports
  expect(_start).toThrow(ProcExit)
  expect(_start).toThrow(expect.objectContaining({ code: 7, name: 'ProcExit' }))
  expect(() => wasi.imports.proc_exit(-1)).toThrow(expect.objectContaining({ code: 2 ** 32 - 1 }))
})

test('before the memory is attached, every pointer is EFAULT', () => {
  const { imports } = openWasi({ writeLine: () => undefined })
  expect(errnoName(imports.clock_time_get(0, 0n, 0))).toBe('EFAULT')
  expect(errnoName(imports.random_get(0, 1))).toBe('EFAULT')
  expect(errnoName(imports.args_get(0, 0))).toBe('EFAULT')
})

describe('arguments and environment', () => {
  test('are those that were configured', () => {
    const { wasi, bytes } = openGuest({ args: ['a', 'ü'], env: { KEY: 'value', ['__proto__']: 'x' } })
    expect(wasi.imports.args_sizes_get(0, 4)).toBe(0)
    expect([bytes().readUInt32LE(0), bytes().readUInt32LE(4)]).toEqual([2, 5])
    expect(wasi.imports.args_get(0, 100)).toBe(0)
    expect([bytes().readUInt32LE(0), bytes().readUInt32LE(4)]).toEqual([100, 102])
    expect(bytes().toString('utf8', 100, 105)).toBe('a\0ü\0')
    expect(wasi.imports.environ_get(0, 100)).toBe(0)
    expect(bytes().toString('utf8', 100, 110)).toBe('KEY=value\0')
  })

  test('are a program name and nothing, unless configured', () => {
    const { wasi, bytes } = openGuest()
    expect(wasi.imports.environ_sizes_get(0, 4)).toBe(0)
    expect([bytes().readUInt32LE(0), bytes().readUInt32LE(4)]).toEqual([0, 0])
    expect(wasi.imports.args_sizes_get(0, 4)).toBe(0)
    expect([bytes().readUInt32LE(0), bytes().readUInt32LE(4)]).toEqual([1, 7])
  })
})

describe('clocks', () => {
  const time = ({ wasi, bytes }: ReturnType<typeof openGuest>, id: number) => {
    expect(wasi.imports.clock_time_get(id, 0n, 8)).toBe(0)
    return bytes().readBigUInt64LE(8)
  }

  test('the wall clock tells the time', () => {
    const now = Number(time(openGuest(), 0)) / 1e6
    expect(Math.abs(now - Date.now())).toBeLessThan(1_000)
  })

  test.each([1, 2, 3])('clock %i never goes back', (id) => {
    const guest = openGuest()
    for (let last = 0n, turn = 0; turn < 1_000; turn++) {
      const now = time(guest, id)
      expect(now).toBeGreaterThanOrEqual(last)
      last = now
    }
  })

  test('have a resolution, and there are four', () => {
    const { wasi, bytes } = openGuest()
    for (const id of [0, 1, 2, 3]) {
      expect(wasi.imports.clock_res_get(id, 8)).toBe(0)
      expect(bytes().readBigUInt64LE(8)).toBeGreaterThan(0n)
    }
    for (const id of [4, -1]) {
      expect(errnoName(wasi.imports.clock_res_get(id, 8))).toBe('EINVAL')
      expect(errnoName(wasi.imports.clock_time_get(id, 0n, 8))).toBe('EINVAL')
    }
  })
})

describe('random_get', () => {
  test.each([1, 8, 127, 128, 129, 1_024, 65_536, 65_537])('fills %i bytes and no more', (size) => {
    const { wasi, bytes } = openGuest()
    expect(wasi.imports.random_get(16, size)).toBe(0)
    expect(bytes().subarray(0, 16)).toEqual(Buffer.alloc(16))
    expect(bytes().subarray(16 + size, 16 + size + 16)).toEqual(Buffer.alloc(16))
    if (size > 100) expect(new Set(bytes().subarray(16, 16 + size)).size).toBeGreaterThan(40)
  })

  test('never gives the same twice', () => {
    const { wasi, bytes } = openGuest()
    const seen = new Set<bigint>()
    for (let turn = 0; turn < 5_000; turn++) {
      wasi.imports.random_get(0, 8)
      seen.add(bytes().readBigUInt64LE(0))
    }
    expect(seen.size).toBe(5_000)
  })
})

describe('output', () => {
  test('becomes lines, however it is cut', () => {
    const { write, pwrite, lines } = openGuest()
    for (const piece of ['one\ntw', 'o', '\n\nth', 'ree\r\n']) write(1, piece)
    pwrite(2, 'oops\n', 5n)
    expect(lines).toEqual(['stdout: one', 'stdout: two', 'stdout: ', 'stdout: three', 'stderr: oops'])
  })

  test('has no carriage return at the end of a line, wherever the line is', () => {
    const { write, lines } = openGuest()
    write(1, 'one\r\ntwo\r\n\r\nth\rree\n\n\r')
    write(1, '\n')
    expect(lines).toEqual(['one', 'two', '', 'th\rree', '', ''].map((line) => `stdout: ${line}`))
  })

  test('keeps a character together that came in two pieces', () => {
    const { write, lines } = openGuest()
    write(1, Buffer.from([0xc3]))
    write(1, Buffer.from([0xbc, 10]))
    expect(lines).toEqual(['stdout: ü'])
  })

  test('loses no unfinished line, and mixes it with no later one', () => {
    const { wasi, write, lines } = openGuest()
    write(1, 'call 1')
    expect(lines).toEqual([])
    wasi.flush()
    wasi.flush()
    write(1, 'call 2\n')
    expect(lines).toEqual(['stdout: call 1', 'stdout: call 2'])
    write(2, 'last words')
    wasi.close()
    expect(lines.at(-1)).toBe('stderr: last words')
  })

  test('that never ends its line is written in pieces of 64 KiB', () => {
    const { wasi, write, lines } = openGuest()
    for (let turn = 0; turn < 3; turn++) write(1, 'x'.repeat(50_000))
    wasi.flush()
    expect(lines.map((line) => line.length - 'stdout: '.length)).toEqual([65_536, 65_536, 18_928])
  })

  test('that fails to be logged is not written again', () => {
    let calls = 0
    const writeLine = () => {
      if (++calls === 1) throw new Error('the log is full')
    }
    const { wasi, write } = openGuest({ writeLine })
    write(1, 'partial')
    expect(() => wasi.flush()).toThrow('the log is full')
    wasi.flush()
    expect(calls).toBe(1)
  })

  test('is gathered from several buffers', () => {
    const { wasi, bytes, put, lines } = openGuest()
    put(100, 'hello\n')
    for (const [index, value] of [100, 2, 0, 0, 102, 4].entries()) bytes().writeUInt32LE(value, index * 4)
    expect(wasi.imports.fd_write(1, 0, 3, 64)).toBe(0)
    expect(bytes().readUInt32LE(64)).toBe(6)
    expect(lines).toEqual(['stdout: hello'])
  })

  test('is found in memory that has grown', () => {
    const { wasi, lines } = openGuest()
    const module = moduleOf('wasi-grow')
    const { memory, write } = new WebAssembly.Instance(module, { [WASI]: wasi.imports }).exports
    wasi.attach(memory as WebAssembly.Memory)
    for (let turn = 0; turn < 3; turn++) expect((write as () => number)()).toBe(0)
    expect(lines).toEqual(['stdout: x', 'stdout: x', 'stdout: x'])
  })

  test('is found in memory that is shared', () => {
    const { wasi, lines } = openGuest()
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true })
    wasi.attach(memory)
    memory.grow(1)
    const bytes = Buffer.from(memory.buffer)
    bytes.writeUInt32LE(70_000, 0)
    bytes.writeUInt32LE(3, 4)
    bytes.write('hi\n', 70_000)
    expect(wasi.imports.fd_write(1, 0, 1, 8)).toBe(0)
    expect(lines).toEqual(['stdout: hi'])
    for (const size of [8, 300]) expect(wasi.imports.random_get(100, size)).toBe(0)
  })
})

describe('descriptors', () => {
  test('standard input has ended', () => {
    const { read, pread } = openGuest()
    expect(read(0)).toBe('')
    expect(pread(0, 10, 0n)).toBe('')
  })

  test('the standard ones are terminals: libcs then buffer by lines', () => {
    const { wasi, bytes, fdStat } = openGuest()
    for (const fd of [0, 1, 2]) {
      expect(wasi.imports.fd_fdstat_get(fd, 0)).toBe(0)
      expect(bytes()[0]).toBe(2)
      expect(bytes().readBigUInt64LE(8) & 0b100100n).toBe(0n) // no fd_seek, no fd_tell
      expect(fdStat(fd)).toMatchObject({ filetype: 2, size: 0 })
    }
  })

  test('what they cannot do is an error', () => {
    const { wasi, read, write, seek } = openGuest()
    const { imports } = wasi
    expect(read(1)).toBe('EBADF')
    expect(write(0, 'x')).toBe('EBADF')
    for (const fd of [0, 1, 2]) {
      expect(seek(fd, 0n, 1)).toBe('ESPIPE')
      expect(errnoName(imports.fd_tell(fd, 0))).toBe('ESPIPE')
      expect(errnoName(imports.fd_advise(fd, 0n, 0n, 0))).toBe('ESPIPE')
      expect(errnoName(imports.fd_prestat_get(fd, 0))).toBe('EBADF')
      expect(errnoName(imports.fd_filestat_set_size(fd, 0n))).toBe('EBADF')
      expect(errnoName(imports.fd_filestat_set_times(fd, 0n, 0n, 1))).toBe('EBADF')
      expect(errnoName(imports.fd_readdir(fd, 0, 10, 0n, 0))).toBe('ENOTDIR')
      expect(errnoName(imports.path_create_directory(fd, 0, 1))).toBe('ENOTDIR')
      expect(errnoName(imports.fd_allocate(fd, 0n, 1n))).toBe('ENOTSUP')
      expect(errnoName(imports.fd_fdstat_set_flags(fd, 4))).toBe('SUCCESS')
      expect(errnoName(imports.fd_fdstat_set_flags(fd, 1))).toBe('ENOTSUP')
      expect(errnoName(imports.fd_fdstat_set_rights(fd, 0n, 0n))).toBe('ENOTSUP')
    }
    expect(errnoName(imports.fd_sync(1))).toBe('SUCCESS')
  })

  test('there are no others: a libc that looks for folders at 3 stops at once', () => {
    const { wasi, open, named, bytes } = openGuest()
    const { imports } = wasi
    for (const fd of [3, 4, -1, 2 ** 31 - 1]) {
      const answers = [
        imports.fd_prestat_get(fd, 0),
        imports.fd_prestat_dir_name(fd, 0, 10),
        imports.fd_read(fd, 0, 0, 0),
        imports.fd_write(fd, 0, 0, 0),
        imports.fd_pread(fd, 0, 0, 0n, 0),
        imports.fd_pwrite(fd, 0, 0, 0n, 0),
        imports.fd_seek(fd, 0n, 0, 0),
        imports.fd_tell(fd, 0),
        imports.fd_close(fd),
        imports.fd_renumber(fd, 1),
        imports.fd_renumber(1, fd),
        imports.fd_fdstat_get(fd, 0),
        imports.fd_fdstat_set_flags(fd, 0),
        imports.fd_filestat_get(fd, 0),
        imports.fd_filestat_set_size(fd, 0n),
        imports.fd_sync(fd),
        imports.fd_datasync(fd),
        imports.fd_advise(fd, 0n, 0n, 0),
        imports.fd_allocate(fd, 0n, 0n),
        imports.fd_readdir(fd, 0, 0, 0n, 0),
        imports.path_filestat_get(fd, 0, ...named('x'), 0),
      ]
      expect(new Set(answers.map(errnoName))).toEqual(new Set(['EBADF']))
      expect(open('x', { from: fd })).toBe('EBADF')
    }
    expect(bytes().length).toBe(131_072)
  })

  test('can be closed and renumbered', () => {
    const { wasi, write, close, lines } = openGuest()
    expect(wasi.imports.fd_renumber(2, 1)).toBe(0)
    expect(write(2, 'x')).toBe('EBADF')
    expect(write(1, 'to stderr\n')).toBe(10)
    expect(lines).toEqual(['stderr: to stderr'])
    expect(wasi.imports.fd_renumber(1, 1)).toBe(0)
    expect(close(1)).toBe('SUCCESS')
    expect(close(1)).toBe('EBADF')
  })
})

test('there are no sockets and no signals', () => {
  const { imports } = openGuest().wasi
  expect(errnoName(imports.sock_accept(0, 0, 0))).toBe('ENOTSUP')
  expect(errnoName(imports.sock_recv(0, 0, 0, 0, 0, 0))).toBe('ENOTSUP')
  expect(errnoName(imports.sock_send(0, 0, 0, 0, 0))).toBe('ENOTSUP')
  expect(errnoName(imports.sock_shutdown(0, 0))).toBe('ENOTSUP')
  expect(errnoName(imports.proc_raise(9))).toBe('ENOSYS')
  expect(imports.sched_yield()).toBe(0)
})

describe('hostile pointers', () => {
  const SIZE = 131_072

  test.each([SIZE, SIZE - 3, -1, -8, 2 ** 31 - 1, -(2 ** 31)])('%i is EFAULT', (pointer) => {
    const { wasi } = openGuest()
    const { imports } = wasi
    const answers = [
      imports.args_sizes_get(pointer, 0),
      imports.args_get(0, pointer),
      imports.clock_time_get(1, 0n, pointer),
      imports.fd_fdstat_get(1, pointer),
      imports.fd_filestat_get(1, pointer),
      imports.fd_write(1, 0, 0, pointer),
      imports.fd_write(1, pointer, 1, 0),
      imports.fd_read(0, pointer, 1, 0),
      imports.random_get(pointer, 8),
      imports.poll_oneoff(pointer, 0, 1, 0),
      imports.poll_oneoff(0, pointer, 1, 0),
      imports.poll_oneoff(0, 0, 1, pointer),
    ]
    expect(new Set(answers.map(errnoName))).toEqual(new Set(['EFAULT']))
  })

  test('a list of buffers longer than the memory is EFAULT, and so is one that leads outside', () => {
    const { wasi, bytes } = openGuest()
    expect(errnoName(wasi.imports.fd_write(1, 0, -1, 0))).toBe('EFAULT')
    expect(errnoName(wasi.imports.random_get(0, -1))).toBe('EFAULT')
    bytes().writeUInt32LE(SIZE - 1, 64)
    bytes().writeUInt32LE(2, 68)
    expect(errnoName(wasi.imports.fd_write(1, 64, 1, 0))).toBe('EFAULT')
  })

  test('buffers that overlap write no more than there is memory, and say so', () => {
    const { wasi, bytes, lines } = openGuest()
    for (let at = 0; at < 8_000; at += 8) bytes().writeUInt32LE(100_000, at + 4)
    expect(wasi.imports.fd_write(1, 0, 1_000, 8_000)).toBe(0)
    expect(bytes().readUInt32LE(8_000)).toBe(100_000)
    wasi.flush()
    expect(lines.join('').length).toBeLessThan(SIZE)
  })
})

test('a list that only begins in the memory is EFAULT, and one up to its end is not', () => {
  const { wasi, bytes } = openGuest()
  const { imports } = wasi
  const end = bytes().length
  const answers = (distance: number) =>
    [
      imports.poll_oneoff(end - distance * 48, 0, 2, 4_096),
      imports.poll_oneoff(1_024, end - distance * 32, 2, 4_096),
      imports.fd_write(1, end - distance * 8, 2, 4_096),
      imports.fd_read(0, end - distance * 8, 2, 4_096),
      imports.fd_pwrite(1, end - distance * 8, 2, 0n, 4_096),
    ].map((error) => errnoName(error))
  expect(answers(1)).toEqual(Array(5).fill('EFAULT'))
  bytes().fill(0)
  expect(answers(2)).toEqual(Array(5).fill('SUCCESS'))
})

describe('poll_oneoff', () => {
  const CLOCK = 0
  const READ = 1
  const WRITE = 2

  function openPoller(options: Partial<WasiOptions> = {}) {
    const guest = openGuest(options)
    const { imports } = guest.wasi
    return {
      ...guest,
      subscribe(index: number, type: number, id: number, timeout = 0n, flags = 0) {
        const at = 1_024 + index * 48
        const bytes = guest.bytes()
        bytes.fill(0, at, at + 48)
        bytes.writeBigUInt64LE(BigInt(index + 1), at)
        bytes.writeUInt8(type, at + 8)
        bytes.writeUInt32LE(id, at + 16)
        bytes.writeBigUInt64LE(timeout, at + 24)
        bytes.writeUInt16LE(flags, at + 40)
      },
      poll(count: number) {
        expect(imports.poll_oneoff(1_024, 8_192, count, 0)).toBe(0)
        const bytes = guest.bytes()
        return Array.from({ length: bytes.readUInt32LE(0) }, (_, index) => {
          const at = 8_192 + index * 32
          return {
            userdata: Number(bytes.readBigUInt64LE(at)),
            error: errnoName(bytes.readUInt16LE(at + 8)),
            type: bytes[at + 10],
            hangup: bytes.readUInt16LE(at + 24),
          }
        })
      },
    }
  }

  test('says how much there is of the input of a program, and when that has ended', () => {
    const streams = new ProgramStreams(100, () => undefined)
    const { wasi, bytes, subscribe, poll } = openPoller({ streams })
    subscribe(0, READ, 0)
    const event = { userdata: 1, error: 'SUCCESS', type: READ }
    expect(poll(1)).toEqual([{ ...event, hangup: 1 }])
    streams.begin(Buffer.from('abcdef'))
    expect(poll(1)).toEqual([{ ...event, hangup: 0 }])
    expect(bytes().readBigUInt64LE(8_192 + 16)).toBe(6n)
    bytes().writeUInt32LE(256, 64)
    bytes().writeUInt32LE(100, 68)
    expect(errnoName(wasi.imports.fd_pread(0, 64, 1, 0n, 0))).toBe('ESPIPE')
    expect([wasi.imports.fd_read(0, 64, 1, 0), bytes().readUInt32LE(0)]).toEqual([0, 6])
    expect(bytes().toString('utf8', 256, 262)).toBe('abcdef')
    expect(poll(1)).toEqual([{ ...event, hangup: 1 }])
  })

  test('without subscriptions is EINVAL', () => {
    expect(errnoName(openGuest().wasi.imports.poll_oneoff(0, 0, 0, 0))).toBe('EINVAL')
  })

  test('waits for the earliest clock, and tells of it only', () => {
    const { subscribe, poll } = openPoller()
    subscribe(0, CLOCK, 1, 60_000_000_000n)
    subscribe(1, CLOCK, 0, 30_000_000n)
    const before = performance.now()
    expect(poll(2)).toEqual([{ userdata: 2, error: 'SUCCESS', type: CLOCK, hangup: 0 }])
    const waited = performance.now() - before
    expect(waited).toBeGreaterThanOrEqual(29.9)
    expect(waited).toBeLessThan(10_000)
  })

  test.each([0, 1])('waits until a point in time of clock %i', (id) => {
    const { wasi, bytes, subscribe, poll } = openPoller()
    const before = performance.now()
    wasi.imports.clock_time_get(id, 0n, 0)
    subscribe(0, CLOCK, id, bytes().readBigUInt64LE(0) + 30_000_000n, 1)
    expect(poll(1)).toHaveLength(1)
    expect(performance.now() - before).toBeGreaterThanOrEqual(29)
  })

  test('does not wait for a point in time that has passed', () => {
    const { subscribe, poll } = openPoller()
    subscribe(0, CLOCK, 0, 1n, 1)
    subscribe(1, CLOCK, 1, 2n ** 64n - 1n)
    expect(poll(2)).toMatchObject([{ userdata: 1 }])
  })

  test('finds descriptors ready at once, and unknown ones in error', () => {
    const { subscribe, poll } = openPoller()
    subscribe(0, CLOCK, 1, 60_000_000_000n)
    subscribe(1, READ, 0)
    subscribe(2, WRITE, 1)
    subscribe(3, READ, 1)
    subscribe(4, WRITE, 99)
    subscribe(5, CLOCK, 9)
    subscribe(6, 77, 0)
    subscribe(7, WRITE + 1, 1)
    expect(poll(8)).toEqual([
      { userdata: 2, error: 'SUCCESS', type: READ, hangup: 1 },
      { userdata: 3, error: 'SUCCESS', type: WRITE, hangup: 0 },
      { userdata: 4, error: 'EBADF', type: READ, hangup: 0 },
      { userdata: 5, error: 'EBADF', type: WRITE, hangup: 0 },
      { userdata: 6, error: 'EINVAL', type: CLOCK, hangup: 0 },
      { userdata: 7, error: 'EINVAL', type: 77, hangup: 0 },
      { userdata: 8, error: 'EINVAL', type: WRITE + 1, hangup: 0 },
    ])
  })

  test('ends when the thread is terminated', async () => {
    const worker = new Worker(workerOf(sleeper), { workerData: guestBytes('wasi-sleep') })
    onTestFinished(async () => void (await worker.terminate()))
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    await new Promise((resolve) => setTimeout(resolve, 50)) // the message is sent just before the guest sleeps
    const before = performance.now()
    expect(await worker.terminate()).toBe(1)
    expect(performance.now() - before).toBeLessThan(1_000)
  })

  const sleeper = `
    const { openWasi } = await import(${JSON.stringify(new URL('../../../src/runtime/wasi/wasi.ts', import.meta.url).href)})
    const { parentPort, workerData } = await import('node:worker_threads')
    const wasi = openWasi({ writeLine() {} })
    const module = new WebAssembly.Module(workerData)
    const { exports } = new WebAssembly.Instance(module, { ${WASI}: wasi.imports })
    wasi.attach(exports.memory)
    parentPort.postMessage('ready')
    exports.sleep()`
})

/** A worker cannot start from TypeScript on Node 20: it starts from this text, which loads tsx first. */
function workerOf(code: string): URL {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx/esm/api')).href.replace(
    '.cjs',
    '.mjs',
  )
  const bootstrap = `import { register } from ${JSON.stringify(tsx)}; register();\n${code}`
  return new URL(`data:text/javascript,${encodeURIComponent(bootstrap)}`)
}
