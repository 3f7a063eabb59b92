import type { Words } from './words.ts'

/** Renders the script for zsh, where `compinit` has run. */
export function renderZsh({
  commands,
  languages,
  storeActions,
  flags,
  choices,
  paths,
  texts,
}: Words): string {
  const cases = choices.map(([flag, values]) => `    ${flag}) compadd -- ${values.join(' ')}; return ;;`)
  return `#compdef wasm-serve
# Completion of wasm-serve for zsh: source <(wasm-serve completion zsh)
_wasm_serve() {
  local cur=\${words[CURRENT]} prev=\${words[CURRENT-1]} word skip= plugin= number=0 i
  case $prev in
${cases.join('\n')}
    ${paths.join('|')}) _files; return ;;
    ${texts.join('|')}) return ;;
  esac
  if [[ $cur == -* ]]; then
    compadd -- ${flags.join(' ')}
    return
  fi
  # The words before this one that are neither flags nor their values.
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      ${[...choices.map(([flag]) => flag), ...paths, ...texts].join('|')}) skip=1 ;;
      -*) ;;
      ${commands.join('|')}) if ((i > 2)); then plugin=\${plugin:-$word}; ((number++)); fi ;;
      *) plugin=\${plugin:-$word}; ((number++)) ;;
    esac
  done
  case \${words[2]} in
    completion) ((CURRENT == 3)) && compadd -- bash zsh fish; return ;;
    new) ((CURRENT == 3)) && compadd -- ${languages.join(' ')}; return ;;
    store) ((CURRENT == 3)) && compadd -- ${storeActions.join(' ')}; return ;;
    help) ((CURRENT == 3)) && compadd -- ${commands.join(' ')} flags; return ;;
  esac
  if ((number == 1)); then
    compadd -- \${(f)"$("\${words[1]}" inspect --names "$plugin" 2>/dev/null)"}
    return
  fi
  ((number > 1)) && return
  ((CURRENT == 2)) && compadd -- ${commands.join(' ')}
  _files -g '*.(wasm|json)'
}
compdef _wasm_serve wasm-serve
`
}
