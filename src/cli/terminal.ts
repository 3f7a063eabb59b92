import type { WriteStream } from 'node:tty'
import type { Terminal } from '../observe/log/log.ts'

/** Texts for a stream, in colours if it is a terminal that has them and nothing forbids them. (https://no-color.org) */
export function openTerminal(
  stream: Pick<WriteStream, 'isTTY' | 'hasColors' | 'write'>,
  { NO_COLOR }: NodeJS.ProcessEnv,
): Terminal {
  return {
    write: (text) => stream.write(text),
    colours: stream.isTTY && stream.hasColors() && !NO_COLOR,
  }
}
