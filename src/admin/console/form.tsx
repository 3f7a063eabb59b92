import type { ComponentChildren, JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { AdminApiError } from './admin-api.ts'

export interface FieldProps {
  /** Of the control that is the child. */
  readonly id: string
  readonly label: string
  readonly children: ComponentChildren
}

/** A control below its label. */
export function Field({ id, label, children }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
    </div>
  )
}

export interface Attempt {
  readonly isBusy: boolean
  /**
   * Runs an action, unless one is running, and keeps its result for the page: an element, or the text of a success.
   *
   * @param meaning - What a refusal means. The action may return another one by its argument when it has done a part.
   */
  run(action: Action, meaning?: string): Promise<void>
  /** The result of the last action. Screen readers read it out. @param before - Shown before the first action. */
  outcome(before?: JSX.Element): JSX.Element
}

type Action = (setMeaning: (meaning: string) => void) => Promise<JSX.Element | string>

/** An action of a form, and the result of its last run. */
export function useAttempt(): Attempt {
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
        setResult(<Refusal error={error} meaning={current} />)
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

function Refusal({ error, meaning }: { readonly error: AdminApiError; readonly meaning: string }) {
  return (
    <div class="refusal">
      <strong>{error.status === 0 ? 'Whether it was done is not known.' : meaning} </strong>
      {error.message}
      {error.code !== '' && <code>{error.code}</code>}
    </div>
  )
}
