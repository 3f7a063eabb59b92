/**
 * The file that a thread of ours is started from. Where the sources themselves are run, as tests do, it is what the
 * build made of them: Node 20 starts no thread from TypeScript.
 *
 * @param name - Of a module, without its ending.
 * @param from - URL of a module in the same folder.
 */
export function workerFile(name: string, from: string): URL {
  return new URL(`./${name}.js`, from.replace(/\/src\/(.*)\.ts$/, '/dist/$1.js'))
}
