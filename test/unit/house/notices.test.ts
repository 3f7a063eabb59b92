import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { notices } from '../../../scripts/notices.ts'

const of = (...names: string[]) =>
  notices(names.map((name) => fileURLToPath(new URL(`../../../node_modules/${name}`, import.meta.url))))

test('a notice has the copyright of each package and each text of a licence once', () => {
  const text = of('fastify', 'pino', 'semver', 'fastq', 'abstract-logging')
  for (const line of [
    'fastify: Copyright (c) 2016-present The Fastify team',
    'pino: Copyright (c) 2016-present Matteo Collina',
    'semver: Copyright (c) Isaac Z. Schlueter and Contributors',
    'fastq: Copyright (c) 2015-2020, Matteo Collina',
    'abstract-logging: James Sumners',
    'provided that the above copyright notice and this permission notice appear in all copies.',
  ])
    expect(text).toContain(line)
  expect(text.match(/Permission is hereby granted/g)).toHaveLength(1)
  expect(text.match(/Permission to use, copy/g)).toHaveLength(1)
})
