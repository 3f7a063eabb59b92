/** What was counted of one version while calls were split between two. */
export interface VersionCounts {
  calls: number
  /** Calls that ended in an error that is not the guest's own word. */
  failures: number
}
