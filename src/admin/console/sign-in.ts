import { element } from './element.ts'

/**
 * Asks for the token.
 *
 * @param problem - Why it is asked for again.
 */
export function askForToken(
  main: HTMLElement,
  problem: string | undefined,
  onToken: (token: string) => void,
): void {
  const field = element('input', {
    id: 'token',
    type: 'password',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-describedby': 'token-help',
    'aria-invalid': problem !== undefined && 'true',
  })
  const submit = (event: Event) => {
    event.preventDefault()
    onToken(field.value.trim())
  }
  main.replaceChildren(
    element(
      'form',
      { class: 'card sign-in', onsubmit: submit },
      element('h1', {}, 'Admin token'),
      problem !== undefined && element('p', { class: 'refusal', role: 'alert' }, problem),
      element('label', { for: 'token' }, 'Token'),
      field,
      element(
        'p',
        { id: 'token-help', class: 'hint' },
        'It was printed when the server started, unless it was given as ',
        element('code', {}, 'WASM_SERVE_ADMIN_TOKEN'),
        ' or ',
        element('code', {}, 'adminToken'),
        '. This tab keeps it until it is closed.',
      ),
      element('button', { class: 'primary' }, 'Open the console'),
    ),
  )
  field.focus()
}
