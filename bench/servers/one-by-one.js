import { Turns } from '../../lib/route/end-of-turn.js'

/* Loaded before the command: its calls run as they come, and none waits for the end of a turn. */

Turns.prototype.add = (run, request, reply) => run(request, reply)
