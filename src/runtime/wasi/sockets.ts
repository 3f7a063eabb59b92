import { errno } from './errno.ts'

const NOT_SUPPORTED = errno('ENOTSUP')

/** `sock_*`: a guest has no sockets; for HTTP there is Extism's `http_request`. */
export const socketFunctions = {
  sock_accept: (_fd: number, _flags: number, _result: number): number => NOT_SUPPORTED,
  sock_recv: (
    _fd: number,
    _list: number,
    _count: number,
    _flags: number,
    _size: number,
    _outFlags: number,
  ): number => NOT_SUPPORTED,
  sock_send: (_fd: number, _list: number, _count: number, _flags: number, _size: number): number =>
    NOT_SUPPORTED,
  sock_shutdown: (_fd: number, _how: number): number => NOT_SUPPORTED,
}
