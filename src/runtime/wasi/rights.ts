/** Bits of `rights`, by the functions that they allow. */
const BIT = {
  ...{ fd_datasync: 0, fd_read: 1, fd_seek: 2, fd_fdstat_set_flags: 3, fd_sync: 4, fd_tell: 5 },
  ...{ fd_write: 6, fd_advise: 7, fd_allocate: 8, path_create_directory: 9, path_create_file: 10 },
  ...{ path_link_source: 11, path_link_target: 12, path_open: 13, fd_readdir: 14, path_readlink: 15 },
  ...{ path_rename_source: 16, path_rename_target: 17, path_filestat_get: 18 },
  ...{ path_filestat_set_size: 19, path_filestat_set_times: 20, fd_filestat_get: 21 },
  ...{ fd_filestat_set_size: 22, fd_filestat_set_times: 23, path_symlink: 24 },
  ...{ path_remove_directory: 25, path_unlink_file: 26, poll_fd_readwrite: 27 },
} as const

function rights(...names: readonly (keyof typeof BIT)[]): bigint {
  return names.reduce((bits, name) => bits | (1n << BigInt(BIT[name])), 0n)
}

/** The rights that decide how a file is opened. */
export const READ = rights('fd_read')
export const WRITE = rights('fd_write')

/** Without the right to seek: that is how libcs know a terminal, whose output they buffer by lines. */
export const STREAM_INPUT = rights('fd_read', 'fd_filestat_get', 'poll_fd_readwrite')
export const STREAM_OUTPUT = rights('fd_write', 'fd_filestat_get', 'poll_fd_readwrite')

const FILE = rights('fd_seek', 'fd_tell', 'fd_advise', 'fd_filestat_get', 'fd_sync', 'poll_fd_readwrite')
export const FILE_READING = FILE | READ
export const FILE_WRITING =
  FILE | WRITE | rights('fd_datasync', 'fd_filestat_set_size', 'fd_filestat_set_times')

export const FOLDER_READING = rights(
  ...([
    'path_open',
    'fd_readdir',
    'path_readlink',
    'path_filestat_get',
    'fd_filestat_get',
    'fd_sync',
  ] as const),
)

export const FOLDER_WRITING =
  FOLDER_READING |
  rights(
    ...(['path_create_directory', 'path_create_file', 'path_link_source', 'path_link_target'] as const),
    ...(['path_rename_source', 'path_rename_target', 'path_filestat_set_size', 'path_symlink'] as const),
    ...(['path_filestat_set_times', 'fd_filestat_set_times', 'path_remove_directory'] as const),
    'path_unlink_file',
  )
