import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const CHANGELOG = readFileSync(new URL('../../../CHANGELOG.md', import.meta.url), 'utf8')

/** Of Keep a Changelog, in the order of this one. */
const KINDS = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']

const [, ...versions] = CHANGELOG.split(/^## /m)

test('the changelog begins with what is not released, and its versions have a date', () => {
  const titles = versions.map((version) => version.slice(0, version.indexOf('\n')))
  const [first, ...released] = titles
  expect(first).toBe('[Unreleased]')
  expect(released.filter((title) => !/^\[\d+\.\d+\.\d+(-[\w.]+)?\] - \d{4}-\d\d-\d\d$/.test(title))).toEqual(
    [],
  )
})

test('the values of the chart are kept for each version, so that upgrades from it are tested', () => {
  const kept = readdirSync(new URL('../../support/chart-values', import.meta.url))
  const released = versions.flatMap((version) => /^\[(\d.*?)\]/.exec(version)?.[1] ?? [])
  expect(released.filter((version) => !kept.includes(`${version}.yaml`))).toEqual([])
})

test('each version has the kinds of changes of Keep a Changelog, each once and in order', () => {
  for (const version of versions) {
    const kinds = [...version.matchAll(/^### (.*)$/gm)].map(([, kind = '']) => kind)
    expect(kinds).toEqual(KINDS.filter((kind) => kinds.includes(kind)))
  }
})

test('each change is a sentence', () => {
  const changes = [...CHANGELOG.matchAll(/^- .*(?:\n {2}.*)*/gm)].map(([change]) => change)
  expect(changes.length).toBeGreaterThan(100)
  expect(changes.filter((change) => !change.endsWith('.'))).toEqual([])
})
