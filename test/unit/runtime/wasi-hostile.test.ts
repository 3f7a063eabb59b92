import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { FD_FOLDER } from '../../../src/platform/descriptors.ts'
import { ProcExit } from '../../../src/runtime/wasi/wasi.ts'
import { assertReaching } from '../../support/runs.ts'
import { openGuest } from '../../support/wasi.ts'

const PATHS = `. .. / file sub sub/x sub/../file ../secret ../outside/x link/secret link up/secret up loop/x
  new new/ x/y/z sub/../../secret /etc/none file/ ./sub//x missing/../../secret link/../secret`.split(/\s+/)

/** Where the paths stand in the guest's memory, each in a field of its own. */
const PATHS_AT = 65_536
const FIELD = 32

/** Which parameters of a function are paths: a pointer, with the length behind it. */
const PATH_PARAMS: Readonly<Record<string, readonly number[]>> = {
  ...{ path_open: [2], path_filestat_get: [2], path_filestat_set_times: [2], path_create_directory: [1] },
  ...{ path_unlink_file: [1], path_remove_directory: [1], path_readlink: [1] },
  ...{ path_rename: [1, 4], path_link: [2, 5], path_symlink: [0, 3] },
}

/** Which parameters are folders, where it is not the first one only. */
const FOLDER_PARAMS: Readonly<Record<string, readonly number[]>> = {
  ...{ path_symlink: [2], path_rename: [0, 3], path_link: [0, 4] },
}

/** Each function with the types of its parameters, as the guest that imports all of them writes them. */
const signatures = [...readAll().matchAll(/"(\w+)"\s+\(func (?:\$\w+ )?(?:\(param ([^)]*)\))?/g)].map(
  ([, name = '', params = '']) => ({ name, params: params.split(' ').filter(Boolean) }),
)

const i32 = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 0, max: 8 }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 400 }) },
  fc.integer({ min: 60_000, max: 140_000 }),
  fc.constantFrom(-1, -8, 2 ** 31 - 1, -(2 ** 31), 65_536, 131_072),
  fc.integer(),
)
const i64 = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(0n, 1n, 2n, 64n, 66n, -1n) },
  fc.bigInt({ min: 0n, max: 100_000n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
)
const call = fc.constantFrom(...signatures).chain(({ name, params }) =>
  fc.record({
    name: fc.constant(name),
    args: fc.tuple(...params.map((type): fc.Arbitrary<number | bigint> => (type === 'i64' ? i64 : i32))),
    paths: fc.array(fc.nat({ max: PATHS.length - 1 }), { minLength: 2, maxLength: 2 }),
  }),
)

const calls = fc.array(call, { maxLength: 100, size: 'max' })

test(
  'no call can throw, hang or touch what lies outside, whatever its arguments',
  { timeout: 120_000 },
  () => {
    expect(signatures).toHaveLength(46)
    const answered = new Set<string>()
    assertReaching(
      fc.property(calls, fc.uint8Array({ maxLength: 512 }), fc.boolean(), (calls, noise, byPath) => {
        const root = fs.mkdtempSync(join(tmpdir(), 'wasi-hostile-'))
        try {
          run(root, calls, noise, byPath, answered)
          expect(fs.readdirSync(root).sort()).toEqual(['box', 'outside', 'secret'])
          expect(fs.readFileSync(join(root, 'secret'), 'utf8')).toBe('SECRET')
          expect(fs.readdirSync(join(root, 'outside'))).toEqual(['secret'])
          expect(fs.readFileSync(join(root, 'outside/secret'), 'utf8')).toBe('SECRET')
        } finally {
          fs.rmSync(root, { recursive: true, force: true })
        }
      }),
      40,
      () => expect(answered.size).toBeGreaterThan(25), // of the 39 that can succeed
    )
  },
)

interface Call {
  name: string
  args: (number | bigint)[]
  paths: number[]
}

function run(
  root: string,
  calls: readonly Call[],
  noise: Uint8Array,
  byPath: boolean,
  answered: Set<string>,
): void {
  const box = join(root, 'box')
  fs.mkdirSync(join(box, 'sub'), { recursive: true })
  fs.mkdirSync(join(root, 'outside'))
  for (const name of ['secret', 'outside/secret']) fs.writeFileSync(join(root, name), 'SECRET')
  for (const name of ['file', 'sub/x']) fs.writeFileSync(join(box, name), 'hello')
  const links = { link: '../outside', up: '..', loop: 'loop', 'sub/abs': root }
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, join(box, name))

  const allowedPaths = [
    { guest: '/rw', host: box, readOnly: false },
    { guest: '/ro', host: box, readOnly: true },
  ]
  const { wasi, bytes } = openGuest({ allowedPaths, env: { A: 'b' } }, byPath ? '/no/such/folder' : FD_FOLDER)
  onTestFinished(() => wasi.close())
  for (const { name, args, paths } of calls) {
    bytes().set(noise)
    PATHS.forEach((path, index) => {
      bytes().write(path, PATHS_AT + index * FIELD)
    })
    for (const [turn, at] of (PATH_PARAMS[name] ?? []).entries()) {
      const index = paths[turn] ?? 0
      args[at] = PATHS_AT + index * FIELD
      args[at + 1] = PATHS[index]?.length ?? 0
    }
    const likely = name.startsWith('path_') && paths[0] !== 0 ? (FOLDER_PARAMS[name] ?? [0]) : []
    for (const at of likely) args[at] = 3 + ((paths[1] ?? 0) % 3)
    if (name === 'poll_oneoff') removeClocks(bytes(), Number(args[0]) >>> 0, Number(args[2]) >>> 0)
    const answer = callImport(wasi.imports, name, args)
    if (answer === 0) answered.add(name)
  }
  wasi.close()
  expect(bytes().includes('SECRET')).toBe(false)
}

function callImport(imports: object, name: string, args: (number | bigint)[]): unknown {
  try {
    const answer = (imports as Record<string, (...args: (number | bigint)[]) => unknown>)[name]?.(...args)
    expect(answer).toBeTypeOf('number')
    return answer
  } catch (error) {
    if (name === 'proc_exit' && error instanceof ProcExit) return 0
    throw error
  }
}

/** Nobody shall wait for a random time: subscriptions to clocks become others. */
function removeClocks(bytes: Buffer, first: number, count: number): void {
  for (let at = first, left = count; left > 0 && at + 48 <= bytes.length; at += 48, left--) {
    if (bytes[at + 8] === 0) bytes[at + 8] = 1
  }
}

function readAll(): string {
  return fs.readFileSync(new URL('../../guests/wasi-all.wat', import.meta.url), 'utf8')
}
