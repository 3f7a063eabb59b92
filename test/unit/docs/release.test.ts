import { expect, test } from 'vitest'
import { movingTags, notesOf, npmTag, problemsOf, releaseOf } from '../../../scripts/release.ts'

const PUBLISHED = ['0.0.0', '0.9.0', '1.0.0', '1.9.0', '1.10.0', '2.0.0-rc.1']

test.each([
  ['0.9.1', ['0.9'], 'latest-0.9'],
  ['1.0.1', ['1.0'], 'latest-1.0'],
  ['1.9.1', ['1.9'], 'latest-1.9'],
  ['1.10.1', ['1.10', '1', 'latest'], 'latest'],
  ['1.11.0', ['1.11', '1', 'latest'], 'latest'],
  ['1.10.0', ['1.10', '1', 'latest'], 'latest'],
  ['2.0.0', ['2.0', '2', 'latest'], 'latest'],
  ['2.0.0-rc.2', [], 'next'],
  ['1.0.2-rc.1', [], 'next'],
])('of %s the tags %j move, and npm has it as %s', (version, tags, npm) => {
  expect(movingTags(version, PUBLISHED)).toEqual(tags)
  expect(npmTag(version, PUBLISHED)).toBe(npm)
})

test('the first release has all tags', () => {
  expect(movingTags('0.1.0', [])).toEqual(['0.1', 'latest'])
  expect(movingTags('1.0.0', ['0.0.0'])).toEqual(['1.0', '1', 'latest'])
})

test.each([
  '1.0.0',
  'v1.0',
  'v1.0.0+build',
  'v1.0.0-',
  'v1.0.0-rc 1',
  'vnext',
])('%s is not the tag of a release', (tag) => {
  expect(() => releaseOf(tag, 'a/b', 'https://github.com')).toThrow(tag)
})

test('the image of a repository is in lower case, its address is not', () => {
  expect(releaseOf('v1.0.0-rc.1', 'Acme/Fork', 'https://github.com')).toEqual({
    version: '1.0.0-rc.1',
    repository: 'Acme/Fork',
    address: 'https://github.com/Acme/Fork',
    image: 'ghcr.io/acme/fork',
  })
})

test('the notes of a version are its section alone', () => {
  const changelog =
    '# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-02-01\n\n### Added\n\n- B.\n\n## [1.1.0-rc.1] - 2026-01-01\n\n- A.\n'
  expect(notesOf(changelog, '1.1.0')).toBe('### Added\n\n- B.')
  expect(notesOf(changelog, '1.1.0-rc.1')).toBe('- A.')
  expect(notesOf(changelog, '1.1')).toBe('')
})

test('everything that disagrees with the tag is named at once', () => {
  const files: Readonly<Record<string, string>> = {
    'package.json': '{"version":"1.0.0"}',
    'package-lock.json': '{"version":"0.9.0"}',
    'deploy/helm/wasm-serve/Chart.yaml': 'version: 1.0.0\nappVersion: 0.9.0\nhome: https://github.com/a/b\n',
    'deploy/helm/wasm-serve/values.yaml':
      'image:\n  # Registry.\n  registry: ""\n  repository: ghcr.io/a/b\nother:\n  repository: c\n',
    'deploy/compose/compose.yaml': `image: $\{IMAGE:-ghcr.io/a/b:1.0.0}\n`,
    'CHANGELOG.md': '## [1.0.0] - 2026-01-01\n\n## [0.9.0] - 2025-01-01\n\n- A.\n',
  }
  const release = releaseOf('v1.0.0', 'a/b', 'https://github.com')
  expect(problemsOf(release, (path) => files[path] ?? '')).toEqual([
    'version in package-lock.json is 0.9.0, not 1.0.0',
    'appVersion in Chart.yaml is 0.9.0, not 1.0.0',
    'CHANGELOG.md has no changes below "## [1.0.0] - YYYY-MM-DD"',
    'repository.url in package.json is missing, not git+https://github.com/a/b.git',
    'homepage in package.json is missing, not https://github.com/a/b#readme',
    'bugs.url in package.json is missing, not https://github.com/a/b/issues',
    'bash scripts/own-address.sh a/b writes the addresses: commit them',
  ])
})
