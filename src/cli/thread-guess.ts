/**
 * Whether a command line and its variables seem to ask for threads in this process: a guess, before the options are loaded. A
 * thread that is not needed ends.
 */
export function asksForThread(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  const [first = ''] = argv
  const isOtherCommand = /^[a-z]+$/.test(first) && first !== 'serve'
  return (
    !isOtherCommand &&
    Number(textOf('workers')) > 0 &&
    textOf('processes') === undefined &&
    textOf('runtime') === undefined
  )

  function textOf(name: string): string | undefined {
    const flag = `--${name}`
    const at = argv.findIndex((word) => word === flag || word.startsWith(`${flag}=`))
    const word = argv[at]
    if (word === undefined) return environment[`WASM_SERVE_${name.toUpperCase()}`]
    return word === flag ? argv[at + 1] : word.slice(flag.length + 1)
  }
}
