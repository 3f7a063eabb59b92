interface Case {
  readonly locals: number
  readonly values?: number
  readonly code: readonly Uint8Array[]
}

export const CASES: Readonly<Record<string, () => Case>>
export const OPTIMISED: readonly string[]
export function moduleOf(item: Case): Uint8Array
export function measureApart(name: string, flags: readonly string[]): [seconds: number, mebibytes: number]
