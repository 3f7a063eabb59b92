import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'
import { ROOT } from '../support/user-package.ts'

const DOCKERFILE = readFileSync(join(ROOT, 'deploy/docker/Dockerfile'), 'utf8').replaceAll(/ *\\\n/g, ' ')

/** Packages that are published without a licence file: only their package.json names the licence. */
const WITHOUT = ['abstract-logging', '@redis/client', '@sigstore/verify']

const isLicence = (name: string) => /licen[cs]e|copying|notice/i.test(name)

/** An entry of `package-lock.json`. */
interface Locked {
  readonly dev?: true
  readonly optional?: true
  readonly dependencies?: Readonly<Record<string, string>>
}

/** Folders of the packages that the image has: those of the lock file that serve, and those that the Dockerfile names. */
function packagesOfImage(): string[] {
  const { packages }: { packages: Record<string, Locked> } = JSON.parse(
    readFileSync(join(ROOT, 'package-lock.json'), 'utf8'),
  )
  const [, optional = ''] = /^ARG PACKAGES="(.*)"$/m.exec(DOCKERFILE) ?? []
  const found = new Set(
    Object.keys(packages).filter((path) => path !== '' && !packages[path]?.dev && !packages[path]?.optional),
  )
  const left = optional.split(' ').map((name) => `node_modules/${name}`)
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    found.add(path)
    const needed = Object.keys(packages[path]?.dependencies ?? {}).map((name) => `node_modules/${name}`)
    left.push(...needed.filter((each) => !found.has(each)))
  }
  return [...found].filter((path) => !WITHOUT.some((name) => path.endsWith(`/${name}`)))
}

test('what the Dockerfile removes from packages leaves their licences', () => {
  const image = temporaryFolder()
  const packages = packagesOfImage()
  expect(packages.length).toBeGreaterThan(60)
  for (const path of packages) {
    mkdirSync(join(image, 'app', path), { recursive: true })
    for (const name of readdirSync(join(ROOT, path)).filter(
      (each) => isLicence(each) || /\.(md|d\.ts)$/.test(each),
    ))
      cpSync(join(ROOT, path, name), join(image, 'app', path, name), { recursive: true })
  }
  writeFileSync(join(image, 'app/README.md'), '')
  const removals = [...DOCKERFILE.matchAll(/find \/image\/app.*?(?:-exec rm -r \{\} \+|-delete)/g)]
  expect(removals).toHaveLength(2)
  for (const [command] of removals)
    execFileSync('sh', ['-c', command.replace('/image/app', join(image, 'app'))])
  const left = (path: string) => readdirSync(join(image, 'app', path))
  expect(left('.')).not.toContain('README.md')
  expect(packages.filter((path) => !left(path).some(isLicence))).toEqual([])
})

test('the image has the licences of wasm-serve, of Node.js and of the libraries', () => {
  expect(DOCKERFILE).toMatch(/^COPY package\.json LICENSE \/image\/app\/$/m)
  expect(readFileSync(join(ROOT, 'deploy/docker/Dockerfile.dockerignore'), 'utf8')).toContain('!LICENSE\n')
  for (const path of [
    '/usr/local/LICENSE',
    '/usr/share/doc/libc6/copyright',
    '/usr/share/doc/tini/copyright',
  ])
    expect(DOCKERFILE).toMatch(new RegExp(`cp --parents -L .*${path} .*/image`))
})
