import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readTar } from '../../src/plugin/oci/tar.ts'
import { UnpackBudget, unpack } from '../../src/plugin/oci/unpack.ts'
import { runs } from '../support/runs.ts'
import { describeWith } from '../support/tools.ts'

describeWith(['tar'], () => {
  test.each(['v7', 'ustar', 'gnu', 'pax'])('archives of tar in the format %s are read', async (format) => {
    // Longer names than others can have.
    const most = format === 'v7' ? 12 : format === 'ustar' ? 30 : 120
    const step = fc.stringMatching(/^[a-z][a-z.]*$/).map((text) => text.slice(0, most))
    const path = fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => steps.join('/d/'))
    const file = fc.record({ path, content: fc.uint8Array({ maxLength: 2_000 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(file, { maxLength: 5 }), fc.boolean(), async (files, isPacked) => {
        const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-tar-'))
        try {
          const expected = new Map<string, string>()
          for (const [index, { path, content }] of files.entries()) {
            const name = `${index}/${path}`
            mkdirSync(dirname(join(folder, 'in', name)), { recursive: true })
            writeFileSync(join(folder, 'in', name), content)
            expected.set(name, Buffer.from(content).toString('hex'))
          }
          mkdirSync(join(folder, 'in'), { recursive: true })
          symlinkSync('target', join(folder, 'in', 'link'))
          const archive = join(folder, 'archive')
          const flags = ['--create', `--format=${format}`, ...(isPacked ? ['--gzip'] : [])]
          const made = spawnSync('tar', [...flags, '--file', archive, '--directory', join(folder, 'in'), '.'])
          expect(made.stderr.toString()).toBe('')
          const pieces = unpack(readFileSync(archive), new UnpackBudget(1_000_000))
          const entries = await readTar(pieces, () => true)
          const found = entries.filter(({ kind }) => kind === 'file')
          const contents = found.map(
            ({ path, bytes = '' }) => [path, Buffer.from(bytes).toString('hex')] as const,
          )
          expect(new Map(contents)).toEqual(expected)
          expect(entries).toContainEqual({ path: 'link', kind: 'special' })
        } finally {
          rmSync(folder, { recursive: true })
        }
      }),
      { numRuns: runs(40) },
    )
  }, 60_000)
})
