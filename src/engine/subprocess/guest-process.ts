import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { Duplex } from 'node:stream'
import type { Log } from '../../observe/log/guest-log.ts'
import { workerFile } from '../../platform/packages.ts'
import { printable } from '../../platform/text.ts'
import { FD, FRAME_HEADER_BYTES, type Frame, FrameReader, TO_CHILD, writeHeader } from './frames.ts'
import { pack } from './packed.ts'
import type { ProcessNeeds, Sandbox } from './sandbox.ts'

/** A route's runner with an instance in a process. */
export interface Tenant {
  /** Whether the process works for it or is about to. */
  readonly isBusy: boolean
  /** Maximum size of one of its frames, in bytes. */
  readonly maxFrameBytes: number
  /** Called when it waited for the process and the process is idle. */
  free(): void
  /** @throws RangeError if it is invalid: the process is terminated. */
  take(frame: Frame): void
  /** The process has ended. @param isFault - Whether it worked for this tenant, or for none, when it ended. */
  over(reason: Error, isFault: boolean): void
}

/** How a process is started. */
export interface LaunchOptions {
  sandbox(): Promise<Sandbox>
  readonly cgroup: string | undefined
  readonly needs: ProcessNeeds
  readonly log: Log
}

/** Time for a killed process to end. After that it is given up. */
const KILLED_MS = 2_000

/** Maximum characters kept of a process's standard error, for V8's fatal error. */
const MAX_STDERR_CHARS = 4_096

/** The server's side of a process. It works for its tenants, one at a time. */
export class GuestProcess {
  readonly needs: ProcessNeeds
  readonly #launch: LaunchOptions
  readonly #tenants = new Map<number, Tenant>()
  readonly #reader: FrameReader
  readonly #exited: Promise<void>
  #onExited: () => void = () => undefined
  #lastNumber = 0
  /** The current tenant. */
  #turn: Tenant | undefined
  /** Tenants waiting for their turn, in order. */
  readonly #wanting = new Set<Tenant>()
  #child: ChildProcess | undefined
  /** Frames to write: from before the start of the process, or from this turn of the event loop. */
  #unwritten: Uint8Array[] = []
  #lastWords = ''
  #failure: Error | undefined
  #isRetired = false
  #isKilled = false
  #culprit: Tenant | undefined
  #isOver = false

  constructor(launch: LaunchOptions) {
    this.needs = launch.needs
    this.#launch = launch
    this.#reader = new FrameReader(0, (frame) => this.#tenants.get(frame.instance)?.take(frame))
    this.#exited = new Promise((resolve) => (this.#onExited = resolve))
    this.#start().catch((error) => {
      this.#failure ??= error instanceof Error ? error : new Error(String(error))
      this.#end()
    })
  }

  get isEnding(): boolean {
    return this.#isKilled || this.#isOver
  }

  /** Whether it accepts tenants, and work for them. */
  get isOpen(): boolean {
    return !this.#isRetired && !this.isEnding
  }

  get tenants(): Iterable<Tenant> {
    return this.#tenants.values()
  }

  /** The process id; undefined before the start. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Adds a tenant. @returns its number. */
  add(tenant: Tenant): number {
    this.#lastNumber = (this.#lastNumber % 0xffff) + 1
    this.#tenants.set(this.#lastNumber, tenant)
    this.#reader.maxBytes = Math.max(this.#reader.maxBytes, tenant.maxFrameBytes)
    return this.#lastNumber
  }

  /** Removes an idle tenant. The process ends with the last tenant. */
  leave(number: number): void {
    const tenant = this.#tenants.get(number)
    if (!tenant) return
    this.#tenants.delete(number)
    this.#wanting.delete(tenant)
    if (this.#turn === tenant) this.passOn()
    if (this.#tenants.size === 0) void this.kill()
    else this.send({ kind: TO_CHILD.close, instance: number, call: 0, nameBytes: 0, ms: 0 }, [])
    this.flush()
  }

  /** Whether it works for this tenant now. If not, `tenant.free()` is called later. */
  tryAssign(tenant: Tenant): boolean {
    if (!this.isOpen) return false
    const isFree = !this.#turn || this.#turn === tenant || !this.#turn.isBusy
    const isOthersTurn = tenant.isBusy && this.#wanting.size > 0 // its assigned calls are finished first
    if (isFree && !isOthersTurn) {
      this.#turn = tenant
      return true
    }
    this.#wanting.add(tenant)
    return false
  }

  /** Call when the current tenant has no more work. */
  passOn(): void {
    this.#turn = undefined
    if (this.#isRetired) return void this.kill()
    for (const next of [...this.#wanting]) {
      this.#wanting.delete(next)
      next.free()
      if (this.#isWorking) return
    }
  }

  get #isWorking(): boolean {
    return this.#turn?.isBusy === true
  }

  /** Queues a frame for this turn. */
  send(head: Omit<Frame, 'payload'>, payload: readonly Uint8Array[]): void {
    const length = payload.reduce((sum, part) => sum + part.length, 0)
    const isSmall = length <= JOINED_FRAME_BYTES
    const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + (isSmall ? length : 0))
    writeHeader(frame, length, head)
    this.#unwritten.push(frame)
    if (!isSmall) {
      this.#unwritten.push(...payload)
      return
    }
    let at = FRAME_HEADER_BYTES
    for (const part of payload) {
      frame.set(part, at)
      at += part.length
    }
  }

  /** Writes the queued frames. */
  flush(): void {
    const tasks = this.#stream(FD.tasks)
    if (!tasks || this.#unwritten.length === 0) return
    const [first] = this.#unwritten
    if (this.#unwritten.length === 1 && first) tasks.write(first)
    else {
      tasks.cork()
      for (const part of this.#unwritten) tasks.write(part)
      tasks.uncork()
    }
    this.#unwritten = []
  }

  /** Answers a request of a guest, which waits for it. */
  answerHost(instance: number, answer: unknown): void {
    const payload = pack(answer)
    const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES)
    writeHeader(frame, payload.length, { kind: TO_CHILD.hostAnswer, instance, call: 0, nameBytes: 0, ms: 0 })
    const host = this.#stream(FD.host)
    host?.write(frame)
    host?.write(payload)
  }

  /** Ends the process when it is idle, which is no fault of its tenants. */
  retire(): void {
    this.#isRetired = true
    if (!this.#isWorking) void this.kill()
  }

  /**
   * Terminates the process, whatever it does.
   *
   * @param cause - The tenant responsible. Other tenants are not blamed for the end.
   * @returns false if it does not end and is given up.
   */
  async kill(cause?: Tenant): Promise<boolean> {
    this.#isKilled = true
    this.#culprit ??= cause
    this.#child?.kill('SIGKILL')
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), KILLED_MS)
    })
    const hasEnded = await Promise.race([this.#exited.then(() => true), late])
    clearTimeout(timer)
    if (!hasEnded) this.#launch.log.error({ pid: this.pid }, 'a guest process cannot be terminated')
    return hasEnded
  }

  async #start(): Promise<void> {
    const { sandbox, needs, cgroup } = this.#launch
    const { command, programArgs, report } = await sandbox()
    if (this.#isKilled) return this.#end()
    const [file, ...args] = [...command(needs), ...programArgs]
    // A separate session: signals from the terminal are handled by the server.
    const child = spawn(file, args, {
      cwd: '/',
      env: {},
      detached: true,
      stdio: [
        'pipe',
        'ignore',
        'pipe',
        ...PIPES,
        ...(report.endsWithServer === 'thread' ? ['pipe' as const] : []),
      ],
    })
    child.on('error', (error) => {
      this.#failure ??= error
      this.#end() // nothing was started
    })
    if (child.pid === undefined) return // it may have no streams, either
    this.#child = child
    child.on('close', (code, signal) => this.#end(new Error(this.#describe(code, signal))))
    for (const stream of child.stdio) stream?.on('error', ignoreClosed)
    child.stderr?.on('data', (text: Buffer) => this.#hear(text))
    this.#narrow(child.pid, cgroup)
    child.stdin?.end(programText())
    this.#stream(FD.answers)?.on('data', (piece: Buffer) => this.#take(piece))
    this.flush()
  }

  /** Runs before the process sees any guest. @throws if it cannot join its cgroup. */
  #narrow(pid: number, cgroup: string | undefined): void {
    try {
      writeFileSync(`/proc/${pid}/oom_score_adj`, '1000') // the out-of-memory killer chooses this process before the server
    } catch {
      // no such file, or no permission: the system's default applies
    }
    if (cgroup === undefined) return
    try {
      writeFileSync(`${cgroup}/cgroup.procs`, String(pid), { flag: 'a' })
    } catch (error) {
      void this.kill()
      const reason = error instanceof Error ? error.message : String(error)
      throw new Error(`its process cannot join the cgroup (--subprocess-cgroup): ${reason}`, {
        cause: error,
      })
    }
  }

  #take(piece: Buffer): void {
    if (this.#isOver) return
    try {
      this.#reader.push(piece)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      this.#failure ??= new Error(`its process violated the protocol: ${error.message}`)
      this.#reader.maxBytes = -1 // ignore the rest
      void this.kill()
    }
  }

  #hear(text: Buffer): void {
    if (this.#lastWords.length < MAX_STDERR_CHARS)
      this.#lastWords += text.toString().slice(0, MAX_STDERR_CHARS)
  }

  /** Includes V8's reason, if it printed one. */
  #describe(code: number | null, signal: string | null): string {
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    const [fatal] = /^.*(?:FATAL ERROR|Fatal|Error).*$/m.exec(this.#lastWords) ?? []
    return `its process ${how}${fatal === undefined ? '' : `: ${printable(fatal.slice(0, 300))}`}`
  }

  #end(reason = new Error('its process did not start')): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onExited()
    const culprit = this.#culprit ?? (this.#turn?.isBusy ? this.#turn : undefined)
    for (const tenant of this.#tenants.values())
      tenant.over(this.#failure ?? reason, culprit === tenant || (culprit === undefined && !this.#isRetired))
    this.#tenants.clear()
  }

  #stream(fd: number): Duplex | undefined {
    const stream = this.#child?.stdio[fd]
    return stream instanceof Duplex ? stream : undefined
  }
}

/** The descriptors of {@link FD}, except the last, which only a watching thread needs. */
const PIPES = ['pipe', 'pipe', 'pipe'] as const

/** Frames up to this size are copied into one piece. */
const JOINED_FRAME_BYTES = 16_384

/** Ignore EPIPE: the process has ended, which its `close` event reports. */
function ignoreClosed(): void {
  // see above
}

let cachedProgram: Buffer | undefined

/** The path of a process's program. */
function programText(): Buffer {
  cachedProgram ??= readFileSync(workerFile('kernel-process'))
  return cachedProgram
}
