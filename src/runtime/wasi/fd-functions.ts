import type { DescriptorTable } from './descriptor.ts'
import { answer, WasiError } from './errno.ts'
import { NONBLOCK } from './file.ts'
import { newTimes, writeFilestat } from './filestat.ts'
import type { GuestMemory } from './guest-memory.ts'

const MAX_ADVICE = 5

/** `fd_*` but for those of folders: what a guest does with a descriptor that it has. */
export function openFdFunctions(memory: GuestMemory, table: DescriptorTable) {
  return {
    fd_read: answer((fd: number, list: number, count: number, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      const moved = memory.transfer(list, count, (bytes, start, end) => file.read(bytes, start, end))
      memory.view.setUint32(at, moved, true)
    }),
    fd_pread: answer((fd: number, list: number, count: number, offset: bigint, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      let position = toPosition(offset)
      const moved = memory.transfer(list, count, (bytes, start, end) => {
        const length = file.read(bytes, start, end, position)
        position += length
        return length
      })
      memory.view.setUint32(at, moved, true)
    }),
    fd_write: answer((fd: number, list: number, count: number, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      const moved = memory.transfer(list, count, (bytes, start, end) => file.write(bytes, start, end))
      memory.view.setUint32(at, moved, true)
    }),
    fd_pwrite: answer((fd: number, list: number, count: number, offset: bigint, result: number) => {
      const file = table.get(fd)
      const at = memory.locate(result, 4)
      let position = toPosition(offset)
      const moved = memory.transfer(list, count, (bytes, start, end) => {
        const length = file.write(bytes, start, end, position)
        position += length
        return length
      })
      memory.view.setUint32(at, moved, true)
    }),
    fd_seek: answer((fd: number, offset: bigint, whence: number, result: number) => {
      const at = memory.locate(result, 8)
      const position = table.get(fd).seek(BigInt.asIntN(64, offset), whence >>> 0)
      memory.view.setBigUint64(at, BigInt(position), true)
    }),
    fd_tell: answer((fd: number, result: number) => {
      memory.setU64(result, BigInt(table.get(fd).seek(0n, 1)))
    }),
    fd_close: answer((fd: number) => table.close(fd)),
    fd_renumber: answer((from: number, to: number) => table.renumber(from, to)),
    fd_fdstat_get: answer((fd: number, result: number) => {
      const { filetype, flags, rights, inheritedRights } = table.get(fd)
      const at = memory.locate(result, 24)
      memory.view.setUint16(at, filetype, true)
      memory.view.setUint32(at + 2, flags, true)
      memory.view.setUint16(at + 6, 0, true)
      memory.view.setBigUint64(at + 8, rights, true)
      memory.view.setBigUint64(at + 16, inheritedRights, true)
    }),
    /** The host cannot change the flags of what is open: only those that are set already are accepted. */
    fd_fdstat_set_flags: answer((fd: number, flags: number) => {
      if (table.get(fd).flags !== (flags & ~NONBLOCK)) throw new WasiError('ENOTSUP')
    }),
    fd_fdstat_set_rights: answer((fd: number, _rights: bigint, _inherited: bigint) => {
      table.get(fd)
      throw new WasiError('ENOTSUP')
    }),
    fd_filestat_get: answer((fd: number, result: number) => {
      const file = table.get(fd)
      writeFilestat(memory, result, file.filetype, file.stat())
    }),
    fd_filestat_set_size: answer((fd: number, size: bigint) => table.get(fd).truncate(toPosition(size))),
    fd_filestat_set_times: answer((fd: number, atime: bigint, mtime: bigint, flags: number) => {
      const file = table.get(fd)
      const stat = file.stat()
      if (!stat) throw new WasiError('EBADF')
      file.setTimes(...newTimes(stat, atime, mtime, flags))
    }),
    fd_advise: answer((fd: number, _offset: bigint, _length: bigint, advice: number) => {
      if (advice >>> 0 > MAX_ADVICE) throw new WasiError('EINVAL')
      table.get(fd).advise()
    }),
    fd_allocate: answer((fd: number, _offset: bigint, _length: bigint) => {
      table.get(fd)
      throw new WasiError('ENOTSUP') // Node has no fallocate
    }),
    fd_sync: answer((fd: number) => table.get(fd).sync()),
    fd_datasync: answer((fd: number) => table.get(fd).sync()),
  }
}

function toPosition(offset: bigint): number {
  const position = Number(BigInt.asUintN(64, offset))
  if (!Number.isSafeInteger(position)) throw new WasiError('EINVAL')
  return position
}
