import fc from 'fast-check'
import { expect, test } from 'vitest'
import { keySpace } from '../../../src/guest/store/store.ts'
import { nameOfSource } from '../../../src/plugin/source/url.ts'
import { namePart } from '../../../src/route/openapi/routes-document.ts'

test.each([
  ['hello.wasm', 'hello'],
  ['./hello.wasm', 'hello'],
  ['plugins/hello.wasm', 'plugins/hello'],
  ['a/../plugins//hello.WASM', 'plugins/hello'],
  ['../hello.wasm', '../hello'],
  ['/srv/app/hello.wasm', 'hello'],
  [`hello.wasm#sha256=${'0'.repeat(64)}`, 'hello'],
  ['file:///srv/app/hello%20you.wasm', 'hello you'],
  ['manifest.json', 'manifest.json'],
  ['.wasm', '.wasm'],
  ['a/.wasm', 'a/.wasm'],
  ['https://example.com/a/hello.wasm?token=secret#sha256=', 'https://example.com/a/hello.wasm'],
  ['https://user:secret@Example.com/hello.wasm', 'https://example.com/hello.wasm'],
  ['oci://ghcr.io/acme/hello', 'oci://ghcr.io/acme/hello'],
  ['oci://ghcr.io/acme/hello:1.2', 'oci://ghcr.io/acme/hello'],
  ['OCI://localhost:5000/hello:1@sha256:00', 'oci://localhost:5000/hello'],
  [`oci://ghcr.io/acme/hello@sha256:${'0'.repeat(64)}`, 'oci://ghcr.io/acme/hello'],
])('the name of %s is %s', (source, name) => {
  expect(nameOfSource(source)).toBe(name)
})

/** Texts with the characters that names of plug-ins and the encodings of keys have. */
const names = fc.string({
  unit: fc.constantFrom(
    'a',
    'b',
    '2',
    'f',
    '_',
    '/',
    ':',
    ' ',
    '.',
    '-',
    '%',
    '{',
    '}',
    '"',
    '\n',
    '*',
    'ä',
    '😄',
  ),
  minLength: 1,
  maxLength: 12,
})

test.each([
  ['a key of the store', keySpace],
  ['a component of an OpenAPI document', namePart],
  ['a part of a URL', encodeURIComponent],
])('different names are never the same as %s', (_what, encode) => {
  fc.assert(fc.property(names, names, (one, other) => one === other || encode(one) !== encode(other)))
  // Names that look like encoded ones.
  fc.assert(fc.property(names, (name) => encode(name) === name || encode(encode(name)) !== encode(name)))
})

test('different relative paths never have the same name', () => {
  const paths = fc.array(fc.constantFrom('a', 'b.wasm', '..', 'a.wasm', 'c'), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(paths, paths, (one, other) => {
      const [first, second] = [one, other].map((parts) => `${['x', 'y', 'z', 'q', ...parts].join('/')}.wasm`)
      if (!first || !second) throw new Error('two paths')
      const isSame = new URL(first, 'http://a/').pathname === new URL(second, 'http://a/').pathname
      return isSame === (nameOfSource(first) === nameOfSource(second))
    }),
  )
})
