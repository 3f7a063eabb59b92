import type { ComponentChildren, InputHTMLAttributes, JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { AdminApiError } from './admin-api.ts'

export interface LabelledControlProps {
  /** Of the control that is the child. */
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

/** A text field, or one for a file or a check, below its label. */
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

/** The heads of a table's columns. */
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

export interface FormAttempt {
  readonly isBusy: boolean
  /**
   * Runs an action, unless one is running, and keeps its result for the page: an element, or the text of a success.
   *
   * @param meaning - What a refusal means. The action may return another one by its argument when it has done a part.
   */
  run(action: FormAction, meaning?: string): Promise<void>
  /** The result of the last action. Screen readers read it out. @param before - Shown before the first action. */
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
    async run(action, meaning = 'Refused: all is as it was.') {
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
      // biome-ignore lint/a11y/useSemanticElements: <output> may not have paragraphs
      <div class="outcome" role="status" aria-live="polite">
        {result ?? (isBusy ? undefined : before)}
      </div>
    ),
  }
}

function RefusalText({ error, meaning }: { readonly error: AdminApiError; readonly meaning: string }) {
  return (
    <div class="refusal">
      <strong>{error.status === 0 ? 'Whether it was done is not known.' : meaning} </strong>
      {error.message}
      {error.code !== '' && <code>{error.code}</code>}
    </div>
  )
}
