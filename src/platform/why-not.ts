import { explainLimit } from './system-limits.ts'

/** What the system has against a file or folder, in words of our own where they say more. */
export function whyNot(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'there is no such file'
    case 'EISDIR':
      return 'it is a directory'
    case 'EACCES':
    case 'EPERM':
      return 'no permission to read it'
    default:
      return explainLimit(error) ?? message
  }
}
