import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PROGRAMS } from '../registry-programs.ts'

/** BuildKit, which `docker buildx` builds with. */
interface Builder {
  readonly socket: string
  stop(): Promise<void>
}

/** What it built is kept for later runs. Containers have the network of the machine. Needs root and runc. @param registry - `HOST:PORT` of the one that speaks HTTP. */
export async function startBuilder(folder: string, registry: string): Promise<Builder> {
  mkdirSync(folder)
  const config = join(folder, 'buildkitd.toml')
  const socket = join(folder, 'socket')
  const log = join(folder, 'log')
  writeFileSync(
    config,
    `[worker.oci]\nenabled = true\nnetworkMode = "host"\n[worker.containerd]\nenabled = false\n[registry."${registry}"]\nhttp = true\n`,
  )
  const output = openSync(log, 'w')
  const words = ['--config', config, '--root', join(PROGRAMS, '../buildkit'), '--addr', `unix://${socket}`]
  const child = spawn(join(PROGRAMS, 'buildkitd'), words, { stdio: ['ignore', output, output] })
  const ended = once(child, 'exit')
  while (!existsSync(socket)) {
    if (child.exitCode !== null) throw new Error(`buildkitd ended: ${readFileSync(log, 'utf8')}`)
    await sleep(50)
  }
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
  }
  return { socket, stop }
}
