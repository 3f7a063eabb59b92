import type { ComponentChildren, InputHTMLAttributes, JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { AdminApiError } from './admin-api.ts'

interface LabelledControlProps {
  /** The id of the child control. */
  readonly id: string
  readonly label: string
  readonly children: ComponentChildren
}

/** A control below its label. */
export function LabelledControl({ id, label, children }: LabelledControlProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
    </div>
  )
}

/** A text field, file field or checkbox, with its label. */
export function LabelledInput({
  label,
  ...attributes
}: InputHTMLAttributes & { readonly id: string; readonly label: string }) {
  return (
    <LabelledControl id={attributes.id} label={label}>
      <input autocomplete="off" spellcheck={false} {...attributes} />
    </LabelledControl>
  )
}

/** The header cells of a table. */
export function TableHead({ names }: { readonly names: readonly string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th scope="col">{name}</th>
        ))}
      </tr>
    </thead>
  )
}

interface FormAttempt {
  readonly isBusy: boolean
  /**
   * Runs an action unless one is running, and keeps its result for the page: an element, or a success message.
   *
   * @param meaning - Explains a refusal. The action may pass another explanation when it completed partly.
   */
  run(action: FormAction, meaning?: string): Promise<void>
  /** The result of the last action, announced by screen readers. @param before - Shown before the first action. */
  outcome(before?: JSX.Element): JSX.Element
}

type FormAction = (setMeaning: (meaning: string) => void) => Promise<JSX.Element | string>

/** An action of a form, and the result of its last run. */
export function useAttempt(): FormAttempt {
  const [result, setResult] = useState<JSX.Element>()
  const [isBusy, setIsBusy] = useState(false)
  const isRunning = useRef(false)
  return {
    isBusy,
    async run(action, meaning = 'Refused: nothing was changed.') {
      if (isRunning.current) return
      isRunning.current = true
      setIsBusy(true)
      setResult(undefined)
      let current = meaning
      try {
        const done = await action((changed) => {
          current = changed
        })
        setResult(typeof done === 'string' ? <p class="success">{done}</p> : done)
      } catch (error) {
        if (!(error instanceof AdminApiError)) throw error
        setResult(<RefusalText error={error} meaning={current} />)
      } finally {
        isRunning.current = false
        setIsBusy(false)
      }
    },
    outcome: (before) => (
      // biome-ignore lint/a11y/useSemanticElements: <output> must not contain paragraphs
      <div class="outcome" role="status" aria-live="polite">
        {result ?? (isBusy ? undefined : before)}
      </div>
    ),
  }
}

function RefusalText({ error, meaning }: { readonly error: AdminApiError; readonly meaning: string }) {
  return (
    <div class="refusal">
      <strong>{error.status === 0 ? 'The result is unknown.' : meaning} </strong>
      {error.message}
      {error.code !== '' && <code>{error.code}</code>}
    </div>
  )
}
