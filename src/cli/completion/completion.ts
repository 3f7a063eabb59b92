import { UsageError } from '../../errors/errors.ts'
import { didYouMean } from '../../platform/nearest.ts'
import type { Command } from '../command.ts'
import { renderPage } from '../help-page.ts'
import { renderBash } from './bash.ts'
import { renderFish } from './fish.ts'
import { completionWords, type Words } from './words.ts'
import { renderZsh } from './zsh.ts'

const SHELLS = new Map<string, (words: Words) => string>([
  ['bash', renderBash],
  ['zsh', renderZsh],
  ['fish', renderFish],
])

const HELP = renderPage({
  usage: 'wasm-serve completion bash|zsh|fish',
  about:
    'Prints a script that makes a shell complete commands, flags, their values,\nplug-ins and the names of their functions. Put the line of your shell into its\nstart file.',
  examples: [
    'source <(wasm-serve completion bash)   # ~/.bashrc',
    'source <(wasm-serve completion zsh)    # ~/.zshrc, after compinit',
    'wasm-serve completion fish | source    # ~/.config/fish/config.fish',
  ],
  flags: { help: { kind: 'switch', short: 'h', description: 'Show this page.' } },
})

/** Prints a shell's completion script. */
export const completion: Command = {
  async run(argv, { out, commands }) {
    if (argv.includes('--help') || argv.includes('-h')) return out.write(HELP)
    const [shell = '', ...more] = argv
    const render = SHELLS.get(shell)
    if (!render || more.length > 0) {
      throw new UsageError(`completion: name one shell, bash, zsh or fish${didYouMean(shell, SHELLS.keys())}`)
    }
    out.write(render(completionWords(Object.keys(commands))))
  },
}
