/**
 * The file that a thread of ours is started from. Where the sources themselves are run, as tests do, it is what the
 * build made of them: Node 20 starts no thread from TypeScript.
 *
 * @param name - Of a module, without its ending.
 * @param from - URL of a module in the same folder.
 */
export function workerFile(name: string, from: string): URL {
  return new URL(`./${name}.js`, builtFile(from))
}

/** `src/a/b.ts` is `dist/a/b.js`; what is JavaScript stays as it is. */
export function builtFile(url: string): URL {
  return new URL(url.replace(/^(.*)\/src\/(.*)\.ts$/, '$1/dist/$2.js'))
}
