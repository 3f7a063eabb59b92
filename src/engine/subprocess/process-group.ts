import type { Log } from '../../observe/log/guest-log.ts'
import { GuestProcess, type LaunchOptions, type Tenant } from './guest-process.ts'
import { logSandbox, openSandbox, type ProcessNeeds, type Sandbox, type SandboxOptions } from './sandbox.ts'

/** The processes of a server that run guests. */
export class GuestProcesses {
  readonly #options: SandboxOptions
  readonly #log: Log
  readonly #open: () => Promise<Sandbox>
  readonly #groups = new Map<string, ProcessGroup>()
  #sandbox: Promise<Sandbox> | undefined

  /** @param open - Detects the sandbox of this machine. */
  constructor(options: SandboxOptions, log: Log, open = () => openSandbox(options.user)) {
    this.#options = options
    this.#open = open
    this.#log = log
  }

  /** @param name - Routes with the same name share processes. undefined: processes are not shared. */
  group(name: string | undefined): ProcessGroup {
    const known = name === undefined ? undefined : this.#groups.get(name)
    if (known) return known
    const launch = { sandbox: () => this.#openSandbox(), cgroup: this.#options.cgroup, log: this.#log }
    const group = new ProcessGroup(launch, () => {
      if (name !== undefined && this.#groups.get(name) === group) this.#groups.delete(name)
    })
    if (name !== undefined) this.#groups.set(name, group)
    return group
  }

  /** Detected once, when the first process starts. */
  #openSandbox(): Promise<Sandbox> {
    this.#sandbox ??= this.#open().then((sandbox) => {
      logSandbox(sandbox, this.#options, this.#log)
      return sandbox
    })
    return this.#sandbox
  }
}

/** Processes shared by the routes of a name. Each has at most one instance per route. */
export class ProcessGroup {
  readonly #launch: Omit<LaunchOptions, 'needs'>
  readonly #onEmpty: () => void
  readonly #needs = new Map<object, ProcessNeeds>()
  #processes: GuestProcess[] = []

  /** @param onEmpty - Called when the last route has left. */
  constructor(launch: Omit<LaunchOptions, 'needs'>, onEmpty: () => void) {
    this.#launch = launch
    this.#onEmpty = onEmpty
  }

  /** Processes started from now on also meet this route's needs, until it leaves. */
  join(route: object, needs: ProcessNeeds): void {
    this.#needs.set(route, needs)
  }

  /** Processes that may do more than the other routes need are replaced, each when it is idle. */
  leave(route: object): void {
    this.#needs.delete(route)
    if (this.#needs.size === 0) this.#onEmpty()
    const needs = this.#combined()
    for (const process of this.#processes) if (!covers(needs, process.needs)) process.retire()
  }

  /** A process without an instance of this route that meets its needs; started if there is none. */
  choose(route: object, isOfRoute: (tenant: Tenant) => boolean): GuestProcess {
    const needs = this.#needs.get(route)
    this.#processes = this.#processes.filter(({ isOpen }) => isOpen)
    const found = this.#processes.find(
      (process) => (!needs || covers(process.needs, needs)) && ![...process.tenants].some(isOfRoute),
    )
    if (found) return found
    const process = new GuestProcess({ ...this.#launch, needs: this.#combined() })
    this.#processes.push(process)
    return process
  }

  #combined(): ProcessNeeds {
    return combineNeeds([...this.#needs.values()])
  }
}

function covers(has: ProcessNeeds, needs: ProcessNeeds): boolean {
  return (
    has.heapMiB >= needs.heapMiB &&
    has.dataBytes >= needs.dataBytes &&
    needs.reads.every((path) => has.reads.includes(path)) &&
    needs.writes.every((path) => has.writes.includes(path))
  )
}

function combineNeeds(all: readonly ProcessNeeds[]): ProcessNeeds {
  return {
    heapMiB: Math.max(0, ...all.map(({ heapMiB }) => heapMiB)),
    dataBytes: all.reduce((sum, { dataBytes }) => sum + dataBytes, 0),
    reads: [...new Set(all.flatMap(({ reads }) => reads))],
    writes: [...new Set(all.flatMap(({ writes }) => writes))],
  }
}
