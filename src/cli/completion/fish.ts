import type { Words } from './words.ts'

/** Renders the script for fish. */
export function renderFish({
  commands,
  languages,
  storeActions,
  flags,
  choices,
  paths,
  texts,
}: Words): string {
  const valued = new Map<string, string>([
    ...choices.map(([flag, values]) => [flag, `-x -a '${values.join(' ')}'`] as const),
    ...paths.map((flag) => [flag, '-r -F'] as const),
    ...texts.map((flag) => [flag, '-x'] as const),
  ])
  const names = [...flags, ...valued.keys()].filter((flag, index, all) => all.indexOf(flag) === index)
  const lines = names.map((flag) => {
    const name = flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`
    return `complete -c wasm-serve ${name} ${valued.get(flag) ?? ''}`.trimEnd()
  })
  return `# Completion of wasm-serve for fish: wasm-serve completion fish | source
# The words before this one that are neither flags nor a command.
function __wasm_serve_words
  set -l words
  set -l skip
  for word in (commandline -opc)[2..-1]
    if test -n "$skip"
      set skip
    else if contains -- $word ${[...valued.keys()].join(' ')}
      set skip 1
    else if not string match -q -- '-*' $word
      set -a words $word
    end
  end
  contains -- "$words[1]" ${commands.join(' ')}; and set -e words[1]
  for word in $words
    echo $word
  end
end
function __wasm_serve_first
  test (count (commandline -opc)) -eq 1
end
function __wasm_serve_after
  set -l words (commandline -opc)
  test (count $words) -eq 2; and test "$words[2]" = $argv[1]
end
function __wasm_serve_names
  set -l words (__wasm_serve_words)
  set -l program (commandline -opc)[1]
  test (count $words) -eq 1; and $program inspect --names $words[1] 2>/dev/null
end
function __wasm_serve_plugins
  test (count (__wasm_serve_words)) -eq 0; and __fish_complete_suffix .wasm
end
complete -c wasm-serve -f
complete -c wasm-serve -n __wasm_serve_first -a '${commands.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after completion' -a 'bash zsh fish'
complete -c wasm-serve -n '__wasm_serve_after new' -a '${languages.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after store' -a '${storeActions.join(' ')}'
complete -c wasm-serve -n '__wasm_serve_after help' -a '${commands.join(' ')} flags'
complete -c wasm-serve -n 'not contains -- (commandline -opc)[2] completion new store help' -a '(__wasm_serve_plugins) (__wasm_serve_names)'
${lines.join('\n')}
`
}
