import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  isDigest,
  isOciReference,
  parseReference,
  referenceHint,
  renderPinned,
  renderReference,
} from '../../../src/plugin/oci/reference.ts'
import { runs } from '../../support/runs.ts'

const hex = 'a1'.repeat(32)
const digest = `sha256:${hex}`

test.each([
  ['oci://ghcr.io/acme/hello', 'ghcr.io', 'acme/hello', 'latest'],
  ['OCI://GHCR.io/acme/hello:1.2', 'ghcr.io', 'acme/hello', '1.2'],
  ['oci://localhost:5000/hello:v1_x-y', 'localhost:5000', 'hello', 'v1_x-y'],
  ['oci://[::1]:5000/a__b/c-d.e', '[::1]:5000', 'a__b/c-d.e', 'latest'],
  ['oci://docker.io/alpine', 'docker.io', 'library/alpine', 'latest'],
  ['oci://docker.io/acme/hello', 'docker.io', 'acme/hello', 'latest'],
  ['oci://index.docker.io/alpine', 'docker.io', 'library/alpine', 'latest'],
  ['oci://registry-1.docker.io/acme/hello', 'docker.io', 'acme/hello', 'latest'],
])('%s is a reference', (text, registry, repository, tag) => {
  const parsed = { registry, repository, tag, digest: undefined, pin: undefined }
  expect(parseReference(text)).toEqual(parsed)
})

test('a digest decides, and the tag beside it is kept to be shown', () => {
  expect(parseReference(`oci://a.b/c@${digest}`)).toMatchObject({ tag: undefined, digest })
  expect(parseReference(`oci://a.b/c:1@${digest}`)).toMatchObject({ tag: '1', digest })
})

test('the pin of the module comes last, and is not part of the rendered reference', () => {
  const parsed = parseReference(`oci://a.b/c:1@${digest}#sha256=${hex.toUpperCase()}`)
  expect(parsed).toMatchObject({ tag: '1', digest, pin: hex })
  if ('problem' in parsed) throw new Error(parsed.problem)
  expect(renderReference(parsed)).toBe(`oci://a.b/c:1@${digest}`)
  expect(renderPinned(parsed, digest)).toBe(`oci://a.b/c@${digest}`)
})

test.each([
  'https://ghcr.io/a',
  'oci://',
  'oci://ghcr.io',
  'oci://ghcr.io/',
  'oci:///a',
  'oci://user:secret@ghcr.io/a',
  'oci://ghcr.io/A',
  'oci://ghcr.io/../a',
  'oci://ghcr.io/a//b',
  'oci://ghcr.io/a/',
  'oci://ghcr.io:99999/a',
  'oci://gh_cr.io/a',
  'oci://ghcr.io/a:',
  'oci://ghcr.io/a:b:c',
  'oci://ghcr.io/a:.b',
  `oci://ghcr.io/a:${'x'.repeat(129)}`,
  'oci://ghcr.io/a@sha256:abc',
  `oci://ghcr.io/a@${digest.toUpperCase()}`,
  `oci://ghcr.io/a@${digest}@${digest}`,
  `oci://ghcr.io/a@sha512:${hex}${hex}`,
  'oci://ghcr.io/a#sha256=abc',
  'oci://ghcr.io/a?b',
  `oci://ghcr.io/${'a/'.repeat(200)}a`,
  `oci://ghcr.io/${'a'.repeat(2_000)}`,
])('%s is refused with a reason', (text) => {
  expect(parseReference(text)).toEqual({ problem: expect.any(String) })
})

test.each([
  'oci://user:secret@ghcr.io/a',
  'oci://user@ghcr.io/a',
  `oci://user:secret@ghcr.io/a@${digest}`,
])('%s is refused: it has credentials', (text) => {
  expect(parseReference(text)).toEqual({ problem: expect.stringContaining('credentials come from') })
})

test.each([
  ['ghcr.io/acme/hello:1', 'oci://ghcr.io/acme/hello:1'],
  ['docker://ghcr.io/acme/hello:1', 'oci://ghcr.io/acme/hello:1'],
  ['localhost/hello', 'oci://localhost/hello'],
  ['registry:5000/hello', 'oci://registry:5000/hello'],
  [`10.0.0.1/hello@${digest}`, `oci://10.0.0.1/hello@${digest}`],
])('%s is probably %s', (text, meant) => {
  expect(referenceHint(text)).toBe(`; for an artifact of a registry, write ${meant}`)
})

test.each([
  'hello',
  'hello.wasm',
  'acme/hello',
  './a.b/hello',
  '../hello',
  '/ghcr.io/hello',
  'a.b/hello.wasm',
  'a.b/plugin.json',
  'a.b/Hello',
  'ftp://ghcr.io/a',
])('%s is probably no reference', (text) => {
  expect(referenceHint(text)).toBe('')
})

const word = fc.stringMatching(/^[a-z\d]{1,8}$/)
const component = fc
  .tuple(word, fc.array(fc.tuple(fc.constantFrom('.', '_', '__', '-', '--'), word), { maxLength: 2 }))
  .map(([first, rest]) => first + rest.flat().join(''))
const reference = fc
  .record({
    registry: fc.oneof(
      fc.tuple(word, word).map((words) => words.join('.')),
      fc.tuple(word, fc.integer({ min: 1, max: 65_535 })).map((parts) => parts.join(':')),
      fc.constantFrom('localhost:5000', '127.0.0.1:5000', '[::1]:5000'),
    ),
    repository: fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/')),
    tag: fc.option(fc.stringMatching(/^\w[\w.-]{0,127}$/), { nil: undefined }),
    digest: fc.option(
      fc.stringMatching(/^[\da-f]{64}$/).map((hex) => `sha256:${hex}`),
      { nil: undefined },
    ),
  })
  .map((parts) => ({ ...parts, pin: undefined }))
  .filter(({ tag, digest }) => tag !== undefined || digest !== undefined)

test('what is rendered is parsed to the same', () => {
  fc.assert(
    fc.property(reference, (reference) => {
      const text = renderReference(reference)
      expect(parseReference(text)).toEqual(reference)
    }),
    { numRuns: runs(300) },
  )
})

test('any text is parsed to a usable reference or a problem', () => {
  const parts = fc.constantFrom(
    'oci://',
    'ghcr.io',
    '/',
    ':',
    '@',
    '#',
    digest,
    `#sha256=${hex}`,
    '..',
    '[',
    ']',
    '%2e',
  )
  const text = fc.oneof(
    fc.string(),
    fc.array(fc.oneof(parts, fc.string({ maxLength: 4 }))).map((all) => all.join('')),
  )
  fc.assert(
    fc.property(text, (text) => {
      const parsed = parseReference(text.startsWith('oci://') ? text : `oci://${text}`)
      if ('problem' in parsed) return
      expect(isOciReference(renderReference(parsed))).toBe(true)
      expect(parsed.registry).toMatch(/^[a-z\d.:[\]-]+$/)
      expect(parsed.repository).toMatch(/^[a-z\d._/-]+$/)
      expect(parsed.repository.split('/')).not.toContain('..')
      expect(parsed.digest === undefined || isDigest(parsed.digest)).toBe(true)
    }),
    { numRuns: runs(500) },
  )
})
