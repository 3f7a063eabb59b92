// Loaded before a server that has no handler: a process that a signal kills writes no profile.
process.once('SIGTERM', () => process.exit())
