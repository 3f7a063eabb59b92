import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { openWasi } from '../../../src/runtime/wasi/wasi.ts'
import { OPEN, RIGHTS, wasiCalls } from '../../support/wasi-calls.ts'
import type { FuzzTarget } from '../target.ts'

const SECRET = 'SECRET'

/** A step names a path by its place here. What is outside has the same names, so that a link there finds something. */
const PATHS = [
  ...[
    'a',
    'b',
    'c',
    'a/b',
    'a/a',
    'b/a',
    'a/b/c',
    'sub',
    'sub/deep',
    'sub/a',
    'sub/deep/a',
    'file',
    'a/file',
    'b/file',
  ],
  ...[
    'a/deep',
    'a/deep/file',
    'sub/file',
    'sub/deep/file',
    'deep',
    'deep/file',
    'sub/up',
    'sub/deep/up2',
    'sub/down',
  ],
  ...[
    'a/up',
    'a/up2',
    'x',
    'dot',
    'dot/dot/file',
    'link',
    'link/',
    'link/secret',
    'link/inner',
    'abs',
    'abs/secret',
  ],
  ...[
    'sub/out',
    'ro',
    'ro/file',
    'ro/a',
    '.',
    '..',
    '../a',
    '../file',
    '../..',
    '../../file',
    '../../../x',
    '../sub',
    'a/..',
  ],
  ...[
    'a/../..',
    'sub/..',
    './b',
    'a/',
    'sub/deep/',
    'a/.',
    '/',
    '/etc/passwd',
    'ROOT/secret',
    'ROOT/outside',
    '../outside',
  ],
  ...['../outside/secret', 'sub/secret', 'a/secret', 'secret', 'sub/../file', 'a/b/../../c'],
]

const OUTSIDE = ['', 'outside/', 'outside/deep/', 'outside/a/'].flatMap((folder) =>
  ['secret', 'file'].map((name) => `${folder}${name}`),
)

const STEP_BYTES = 6
const MAX_STEPS = 40

/** What the outside actor, and only it, has put into the box. */
const LEADING_OUT = { link: '../outside', 'sub/out': '../../outside/secret' }
const STAYING_IN = { 'sub/up': '../file', 'sub/deep/up2': '../../x', dot: '.', 'sub/down': 'deep' }

/** Functions of the file system between which somebody else may act. */
const HOOKED = [
  ...([
    'lstatSync',
    'readlinkSync',
    'openSync',
    'fstatSync',
    'mkdirSync',
    'rmdirSync',
    'unlinkSync',
  ] as const),
  ...([
    'renameSync',
    'linkSync',
    'symlinkSync',
    'lutimesSync',
    'opendirSync',
    'readdirSync',
    'ftruncateSync',
  ] as const),
]

/**
 * Two guests use paths of overlapping folders, one of them read-only, and in the midst of a call, between two calls of
 * the system, another guest or somebody outside acts. Nothing beside the folders is read, written, made or removed; and
 * as long as nobody outside makes links, no link leads out afterwards.
 *
 * The first byte says who is there. A step is: the action, the folder, two paths, when somebody acts in it, who and how.
 */
export const target: FuzzTarget = {
  name: 'wasi-paths',
  shortInputs: 20, // each makes folders and files

  *seeds() {
    const path = (name: string) => PATHS.indexOf(name)
    const steps = [
      [0, 0, path('a'), 0, 255, 0],
      [0, 0, path('a/b'), 0, 255, 0],
      [1, 0, path('a/b/c'), path('../../file'), 255, 0],
      [2, 0, path('a/b'), path('b'), 2, 4],
      [2, 0, path('sub/deep'), path('a'), 255, 0],
      [2, 0, path('sub/up'), path('b'), 255, 0],
      [7, 0, path('sub/file'), path('a'), 3, 0b1101],
      [7, 0, path('sub/deep/file'), path('sub'), 4, 0b11],
      [8, 0, path('file'), path('file'), 2, 0b111],
    ]
    for (const first of [0, 1, 2, 3]) {
      yield Uint8Array.of(first, ...steps.flat())
      for (const step of steps) yield Uint8Array.of(first, ...step)
      yield Uint8Array.from({ length: 1 + 30 * STEP_BYTES }, (_, i) =>
        i === 0 ? first : (i * 151 + first) % 256,
      )
    }
  },

  run(input) {
    const root = fs.mkdtempSync(join(fs.realpathSync(tmpdir()), 'fuzz-wasi-'))
    try {
      const interrupter = new Interrupter()
      return interrupter.install(() => new Run(root, input, interrupter).all())
    } finally {
      fs.rmSync(root, { recursive: true, force: true })
    }
  },
}

type Calls = ReturnType<typeof wasiCalls>

class Run {
  readonly #root: string
  readonly #input: Uint8Array
  readonly #interrupter: Interrupter
  readonly #hasActor: boolean
  readonly #outside: string
  readonly #inodes: ReadonlySet<bigint>

  constructor(root: string, input: Uint8Array, interrupter: Interrupter) {
    this.#root = root
    this.#interrupter = interrupter
    this.#input = input
    const [first = 0] = input
    this.#hasActor = (first & 1) !== 0
    for (const folder of ['box/sub/deep', 'box/ro', 'outside/inner', 'outside/deep', 'outside/a'])
      fs.mkdirSync(join(root, folder), { recursive: true })
    for (const name of OUTSIDE) fs.writeFileSync(join(root, name), SECRET)
    for (const name of ['box/file', 'box/ro/file', 'box/sub/deep/file'])
      fs.writeFileSync(join(root, name), 'hello')
    const links =
      (first & 2) !== 0 ? { ...STAYING_IN, ...LEADING_OUT, abs: join(root, 'outside') } : STAYING_IN
    for (const [name, to] of Object.entries(links)) fs.symlinkSync(to, join(root, 'box', name))
    this.#outside = this.#snapshot()
    const names = ['', 'outside', 'outside/inner', 'outside/deep', 'outside/a', ...OUTSIDE]
    this.#inodes = new Set(names.map((name) => fs.lstatSync(join(root, name), { bigint: true }).ino))
  }

  all(): string {
    const host = (name: string) => join(this.#root, name)
    const guests = [
      this.#open([
        { guest: '/', host: host('box'), readOnly: false },
        { guest: '/sub', host: host('box/sub'), readOnly: false },
      ]),
      this.#open([
        { guest: '/sub', host: host('box/sub'), readOnly: false },
        { guest: '/ro', host: host('box'), readOnly: true },
      ]),
    ] as const
    let last = 'nothing'
    try {
      const end = Math.min(this.#input.length, 1 + MAX_STEPS * STEP_BYTES)
      for (let at = 1; at + STEP_BYTES <= end; at += STEP_BYTES) {
        last = this.#step(guests, this.#input.subarray(at, at + STEP_BYTES))
        for (const { bytes } of guests)
          if (bytes().includes(SECRET)) throw new Error(`${last}: a guest has read it`)
      }
    } finally {
      for (const { wasi } of guests) wasi.close()
    }
    if (this.#snapshot() !== this.#outside) throw new Error('something outside has changed')
    if (!this.#hasActor) this.#checkLinks(host('box'))
    return last
  }

  #open(allowedPaths: NonNullable<Parameters<typeof openWasi>[0]['allowedPaths']>) {
    const wasi = openWasi({ allowedPaths, writeLine: () => undefined })
    const memory = new WebAssembly.Memory({ initial: 1 })
    wasi.attach(memory)
    return { ...wasiCalls(wasi.imports, memory), wasi }
  }

  #step(guests: readonly [Guest, Guest], step: Uint8Array): string {
    const [action = 0, who = 0, first = 0, second = 0, when = 0, other = 0] = step
    const guest = who & 1 ? guests[1] : guests[0]
    const rival = who & 1 ? guests[0] : guests[1]
    const otherStep = Uint8Array.of(other >> 2, who >> 2, second, first)
    const interrupt =
      this.#hasActor && other & 1
        ? () => this.#act(other >> 2, other & 2 ? this.#path(second) : around(this.#path(first), other >> 4))
        : () => void this.#call(rival, other >> 2, otherStep)
    const { result, acted } = this.#interrupter.during(when % 16, interrupt, () =>
      this.#call(guest, action, step),
    )
    return `${result}${acted ? ', interrupted' : ''}`
  }

  #call(guest: Guest, action: number, step: Uint8Array): string {
    const [, who = 0, first = 0, second = 0] = step
    const [from, to] = [this.#path(first), this.#path(second)]
    const fd = 3 + ((who >> 1) & 1)
    const newFd = 3 + ((who >> 2) & 1)
    const name = ACTIONS[action % ACTIONS.length] ?? 'read'
    const answer = this.#answer(guest, name, from, to, fd, newFd, (who & 8) !== 0)
    return `${name} ${typeof answer === 'string' ? answer : 'SUCCESS'}`
  }

  #answer(
    guest: Guest,
    name: (typeof ACTIONS)[number],
    from: string,
    to: string,
    fd: number,
    newFd: number,
    follow: boolean,
  ): unknown {
    switch (name) {
      case 'mkdir':
      case 'rmdir':
      case 'unlink':
        return guest[name](from, fd)
      case 'rename':
        return guest.rename(from, to, fd, newFd)
      case 'link':
        return guest.link(from, to, follow, fd, newFd)
      case 'symlink':
        return guest.symlink(to, from, fd)
      case 'readlink':
        return guest.readlink(from, 1_024, fd).replace(/^[^E].*/, '') || undefined
      case 'setTimes':
        return guest.setTimes(from, follow, fd)
      case 'stat':
        return this.#see(guest.stat(from, follow, fd))
      case 'write':
        return this.#use(guest, from, fd, { oflags: OPEN.create | OPEN.truncate, rights: RIGHTS.write })
      case 'read':
        return this.#use(guest, from, fd, { rights: RIGHTS.read | (follow ? RIGHTS.write : 0n) })
      case 'list':
        return this.#use(guest, from, fd, { oflags: OPEN.directory })
    }
  }

  #use(guest: Guest, path: string, from: number, opening: Parameters<Calls['open']>[1]): string | number {
    const fd = guest.open(path, { from, ...opening })
    if (typeof fd === 'string') return fd
    this.#see(guest.fdStat(fd))
    guest.read(fd, 100)
    guest.write(fd, 'written')
    if (opening?.oflags === OPEN.directory && guest.readdir(fd).names.includes('inner'))
      throw new Error('listed outside')
    guest.close(fd)
    return fd
  }

  #see(stat: ReturnType<Calls['stat']>): string | object {
    if (typeof stat !== 'string' && this.#inodes.has(stat.ino))
      throw new Error('the attributes of what is outside')
    return stat
  }

  /** Somebody who may do everything within the box makes links that lead out, and takes them away. */
  #act(how: number, path: string): void {
    const at = join(this.#root, 'box', path)
    if (dirname(at).includes('/outside') || !`${at}/`.startsWith(join(this.#root, 'box/'))) return
    try {
      if (!fs.realpathSync(dirname(at)).startsWith(join(this.#root, 'box'))) return
      if (fs.existsSync(`${at}.kept`)) {
        fs.rmSync(at, { recursive: true, force: true })
        fs.renameSync(`${at}.kept`, at)
      } else {
        if (how % 4 !== 3) fs.renameSync(at, `${at}.kept`)
        fs.symlinkSync(join(this.#root, ['outside', 'outside/secret', 'secret', ''][how % 4] ?? ''), at)
      }
    } catch (error) {
      if (!(error instanceof Error && 'code' in error)) throw error
    }
  }

  #path(byte: number): string {
    return (PATHS[byte % PATHS.length] ?? 'a').replace('ROOT', this.#root)
  }

  /** What is beside the box, with the times of changes; without those of the root, whose entry the box is. */
  #snapshot(): string {
    const list = (folder: string): string[] =>
      fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
        const path = join(folder, entry.name)
        if (path === join(this.#root, 'box')) return [path]
        const { mtimeMs, ctimeMs, nlink } = fs.lstatSync(path)
        const content = entry.isDirectory() ? list(path) : [fs.readFileSync(path, 'utf8')]
        return [`${path} ${mtimeMs} ${ctimeMs} ${nlink}`, ...content]
      })
    return list(this.#root).join('\n')
  }

  /** Each link leads below the box, by its text, unless it leads out since the beginning and is where it was. */
  #checkLinks(folder: string): void {
    const box = join(this.#root, 'box')
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) this.#checkLinks(path)
      if (!entry.isSymbolicLink()) continue
      const text = fs.readlinkSync(path)
      const name = path.slice(box.length + 1)
      const isOriginal = text === { ...LEADING_OUT, abs: join(this.#root, 'outside') }[name]
      const isInside = `${resolve(folder, text)}/`.startsWith(`${box}/`)
      if (!isOriginal && !isInside) throw new Error(`${name} leads to ${text}`)
    }
  }
}

type Guest = Calls & { readonly wasi: ReturnType<typeof openWasi> }

const ACTIONS = [
  ...([
    'mkdir',
    'symlink',
    'rename',
    'symlink',
    'mkdir',
    'rename',
    'unlink',
    'read',
    'write',
    'list',
  ] as const),
  ...(['link', 'rmdir', 'readlink', 'stat', 'setTimes', 'rename'] as const),
]

/** The path, or a folder that it leads through. */
function around(path: string, levels: number): string {
  const parts = path.split('/')
  return parts.slice(0, 1 + (levels % parts.length)).join('/')
}

/** Lets somebody act between two calls of the file system, as another thread might. */
class Interrupter {
  #left = -1
  #interrupt: () => void = () => undefined

  /** The sources import these functions by name: the module's exports are changed, until `use` returns. */
  install<Result>(use: () => Result): Result {
    const originals = HOOKED.map((name) => [name, fs[name]] as const)
    for (const [name, original] of originals) {
      Object.assign(fs, {
        [name]: (...args: unknown[]) => this.#before(() => Reflect.apply(original, fs, args)),
      })
    }
    syncBuiltinESMExports()
    try {
      return use()
    } finally {
      for (const [name, original] of originals) Object.assign(fs, { [name]: original })
      syncBuiltinESMExports()
    }
  }

  /** Runs `use`; `interrupt` runs, once, before the call of the file system with this number. */
  during<Result>(
    number: number,
    interrupt: () => void,
    use: () => Result,
  ): { result: Result; acted: boolean } {
    this.#left = number
    this.#interrupt = interrupt
    const result = use()
    const acted = this.#left < 0
    this.#left = -1
    return { result, acted }
  }

  #before<Result>(use: () => Result): Result {
    if (this.#left >= 0 && this.#left-- === 0) this.#interrupt()
    return use()
  }
}
