import { describe, expect, test } from 'vitest'
import { findSections, problemWithFile, readModule } from '../../../src/module/module.ts'
import { bytesOf, moduleOf, section } from '../../support/module-bytes.ts'

const bytes = (latin1: string) => Buffer.from(latin1, 'latin1')

describe('a file that is no module is called what it is', () => {
  test.each([
    ['', /empty/],
    ['\x1f\x8b\x08\0', /gzip/],
    ['\x28\xb5\x2f\xfd\x04', /zstd/],
    ['PK\x03\x04\x14', /zip/],
    ['\x7fELF\x02', /ELF/],
    ['MZ\x90\0', /Windows/],
    ['\xcf\xfa\xed\xfe\x07', /macOS/],
    ['\xca\xfe\xba\xbe\0', /macOS .*Java/],
    ['!<arch>\nlib', /static library/],
    ['BC\xc0\xde5', /LLVM/],
    ['%PDF-1.7', /PDF/],
    ['#!/bin/sh', /script/],
    ['<!DOCTYPE html><p>', /HTML/],
    [' \n<HTML>', /HTML/],
    ['(module (func))', /WebAssembly text/],
    [';; a comment', /WebAssembly text/],
    [' {"a": 1}', /JSON/],
    ['version https://git-lfs.github.com/spec/v1', /Git LFS/],
    ['hello', /is text,/],
    ['\0asn\x01\0\0\0', /unknown kind of file \(it starts with 0061736e\)/],
    ['a\0b', /unknown kind/],
    ['\xff\xfe\xfd\xfc', /unknown kind .*fffefdfc/],
    ['\0as', /unknown kind/],
  ])('%j', (latin1, expected) => {
    expect(problemWithFile(bytes(latin1))).toMatch(expected)
    expect(() => readModule(bytes(latin1), {}, 'test')).toThrow(
      expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_INVALID' }),
    )
  })

  test('text, though its start ends within a character', () => {
    for (const shift of [0, 1, 2, 3]) {
      const text = `${'a'.repeat(shift)}${'\u{1f600}'.repeat(200)}`
      expect(problemWithFile(Buffer.from(text))).toMatch(/is text,/)
    }
  })
})

describe('a module', () => {
  test.each([
    ['\0asm', /cut off: 4 bytes/],
    ['\0asm\x01\0\0', /cut off: 7 bytes/],
    ['\0asm\x0d\0\x01\0', /component/],
    ['\0asm\x02\0\0\0', /version 2/],
    ['\0asm\x01\x01\0\0', /version 257/],
    ['\0asm\x01\0\x02\0', /only version 1/],
  ])('of another kind is refused: %j', (latin1, expected) => {
    expect(problemWithFile(bytes(latin1))).toMatch(expected)
  })

  test('may be empty', () => {
    expect(problemWithFile(bytes('\0asm\x01\0\0\0'))).toBeUndefined()
    expect(readModule(moduleOf(), {}, 'test').sections).toEqual([])
  })

  test('says where its sections are, also those of other tools', () => {
    const hints = bytesOf(25, Buffer.from('metadata.code.branch_hint'), 0)
    const other = bytesOf(25, Buffer.from('metadata.code.branch_hinT'), 0)
    const module = moduleOf(section(0, hints), section(0, other), section(1, bytesOf(0)))
    expect(findSections(module, 'test')).toEqual([
      { id: 0x100, start: 8, content: 10, end: 37 },
      { id: 0, start: 37, content: 39, end: 66 },
      { id: 1, start: 66, content: 68, end: 69 },
    ])
  })

  test.each([
    ['behind the id of a section', moduleOf(bytesOf(1)), 1],
    ['within a section', moduleOf(bytesOf(1, 5, 0)), 4],
  ])('that is cut off %s says how much is missing', (_, module, missing) => {
    expect(() => readModule(module, {}, 'test')).toThrow(
      `it is cut off: at least ${missing} bytes are missing after byte ${module.length}`,
    )
  })
})
