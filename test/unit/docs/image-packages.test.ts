import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

test('the page names the optional packages that the image lacks', () => {
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
  const { peerDependencies } = JSON.parse(read('package.json'))
  const { packages } = JSON.parse(read('package-lock.json'))
  const [, list = ''] = /^ARG PACKAGES="(.*)"$/m.exec(read('deploy/docker/Dockerfile')) ?? []
  const named = list.split(' ')
  const needed = named.flatMap((name) => Object.keys(packages[`node_modules/${name}`].dependencies ?? {}))
  const [, except = ''] =
    /all options are included, except ([^;]*);/.exec(read('docs/operate/deploy.md')) ?? []
  const lacking = Object.keys(peerDependencies).filter((name) => ![...named, ...needed].includes(name))
  expect(Array.from(except.matchAll(/`(.*?)`/g), ([, name]) => name).sort()).toEqual(lacking.sort())
})
