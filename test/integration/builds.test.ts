import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Builds } from '../../src/cli/dev/builds.ts'

/** Builds of a folder with a script of Node.js. What they write is collected. */
function builds(script: string | undefined, { colours = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-builds-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, '.build.cjs'), script ?? '')
  const command = script === undefined ? undefined : COMMAND
  let written = ''
  const all = new Builds(
    folder,
    command,
    { PATH: process.env.PATH, OWN: 'own' },
    (text) => (written += text),
    colours,
  )
  return { all, folder, written: () => written }
}

const COMMAND = { words: [process.execPath, '.build.cjs'], environment: { ADDED: 'added' } } as const

test('a build that fails has the end that it had, and all that it has printed, without colours', async () => {
  const { all, written } = builds(`
    process.stdout.write('\\x1b[31mone\\x1b[0m\\n')
    process.stderr.write('two\\n')
    process.exitCode = 3`)
  const failure = await all.build()
  expect(failure?.code).toBe('WASM_SERVE_BUILD_FAILED')
  expect(failure?.message.split('\n').slice(1).sort()).toEqual(['one', 'two'])
  expect(failure?.message).toContain('it exited with status 3')
  expect(written()).toMatch(/^Building: .*\.build\.cjs\n/)
  expect(written()).toContain('\x1b[31mone')
  expect(written()).toMatch(/The build failed: it exited with status 3\n$/)
})

test('of a long output the end is kept', async () => {
  const { all } = builds(`process.stdout.write('123456789\\n'.repeat(10_000) + 'end'); process.exitCode = 1`)
  const [, ...lines] = (await all.build())?.message.split('\n') ?? []
  expect(lines.at(-1)).toBe('end')
  expect(lines.length).toBeGreaterThan(3_000)
  expect(lines.join('\n').length).toBeLessThanOrEqual(32_768)
})

test('a program that there is not, and one that is ended by a signal, are failures', async () => {
  const folder = builds(undefined).folder
  const absent = new Builds(
    folder,
    { words: ['no-such-program'], environment: {} },
    {},
    () => undefined,
    false,
  )
  expect((await absent.build())?.message).toContain('ENOENT')
  const { all } = builds(`process.kill(process.pid, 'SIGKILL'); setInterval(() => 0, 1_000)`)
  expect((await all.build())?.message).toContain('SIGKILL')
})

test.each([
  true,
  false,
])('a build has the variables of this process and its own, and colours: %j', async (colours) => {
  const { all, written } = builds(
    `const { OWN, ADDED, FORCE_COLOR } = process.env
    console.log([OWN, ADDED, FORCE_COLOR].join())`,
    { colours },
  )
  expect(await all.build()).toBeUndefined()
  expect(written()).toContain(`own,added,${colours ? '1' : ''}\n`)
  expect(written()).toMatch(/Built in \d+\.\d s\n$/)
})

test('a source that changes during a build is built again; what the build makes is not', async () => {
  const { all, folder, written } = builds(`
    const fs = require('node:fs')
    const count = fs.existsSync('.count') ? Number(fs.readFileSync('.count', 'utf8')) : 0
    fs.writeFileSync('.count', String(count + 1))
    if (count === 0) fs.writeFileSync('source.c', 'changed')
    fs.writeFileSync('made.txt', String(count))`)
  writeFileSync(join(folder, 'source.c'), 'source')
  expect(await all.build()).toBeUndefined()
  expect(written().match(/^Building: /gm)).toHaveLength(2)
  expect(written()).toMatch(/^.*source\.c has changed during the build: building again$/m)
})

test('a file that each build writes is no reason to build forever', async () => {
  const { all, folder, written } = builds(`
    const fs = require('node:fs')
    fs.appendFileSync('lock.txt', 'more')`)
  writeFileSync(join(folder, 'lock.txt'), '')
  expect(await all.build()).toBeUndefined()
  expect(written().match(/^Building: /gm)).toHaveLength(3)
})

test('a build that is asked for during a build follows it', async () => {
  const { all, written } = builds('')
  const building = all.build()
  all.ask()
  expect(await building).toBeUndefined()
  expect(written().match(/^Building: /gm)).toHaveLength(2)
})

test('where there is nothing to build, changes are seen', async () => {
  const { all, folder } = builds(undefined)
  for (const name of ['a.js', 'a.wasm', '.hidden']) writeFileSync(join(folder, name), 'a')
  expect(await all.build()).toBeUndefined()
  const next = all.next(true)
  writeFileSync(join(folder, 'a.wasm'), 'longer')
  writeFileSync(join(folder, 'a.js'), 'longer')
  expect(await next).toBe(false)
  await all.build()
  const asked = all.next(false)
  all.ask()
  expect(await asked).toBe(true)
})
