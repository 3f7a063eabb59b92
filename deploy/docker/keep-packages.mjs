import { readFileSync, writeFileSync } from 'node:fs'

/* node keep-packages.mjs NAME...: leaves what serves in package.json, and these optional packages, so that `npm prune` removes the rest. */

const {
  devDependencies: _,
  peerDependencies,
  peerDependenciesMeta: __,
  ...data
} = JSON.parse(readFileSync('package.json', 'utf8'))
for (const name of process.argv.slice(2)) {
  const range = peerDependencies[name]
  if (range === undefined) throw new Error(`${name} is not an optional package of wasm-serve`)
  data.dependencies[name] = range
}
writeFileSync('package.json', JSON.stringify(data, null, 2))
